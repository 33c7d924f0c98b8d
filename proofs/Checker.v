(** * A verified checker for the figures of a plan

    [check] takes the integers that a device compares its words with (reticent plan export) and the figures that
    reticent plan check prints, as exact rationals. If it says true, the claims hold ([check_sound]). It computes with
    whole numbers only, so a certificate is [vm_compute] and [reflexivity].                                        *)

From Coq Require Import Reals ZArith QArith Qreals List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Histories Patterns Rounding Joint Plans Labels Exp.
Import ListNotations.
Open Scope R_scope.

(** ** Rationals as reals *)

Lemma Q2R_inject z : Q2R (inject_Z z) = IZR z.
Proof. unfold Q2R, inject_Z. simpl. field. Qed.

Lemma Q2R_red q : Q2R (Qred q) = Q2R q.
Proof. apply Qeq_eqR, Qred_correct. Qed.

Lemma Q2R_parts q : Q2R q * IZR (Zpos (Qden q)) = IZR (Qnum q).
Proof. unfold Q2R. field. apply not_0_IZR. discriminate. Qed.

Lemma Q2R_nonneg q : (0 <= Qnum q)%Z -> 0 <= Q2R q.
Proof. intros H. unfold Q2R. apply Rmult_le_pos; [now apply IZR_le | left; apply Rinv_0_lt_compat, IZR_lt; reflexivity]. Qed.

Lemma Qle_bool_R a b : Qle_bool a b = true -> Q2R a <= Q2R b.
Proof. intros H. apply Qle_Rle, Qle_bool_iff, H. Qed.

Definition nat_times (k : nat) (q : Q) : Q := (inject_Z (Z.of_nat k) * q)%Q.

Lemma Q2R_nat_times k q : Q2R (nat_times k q) = INR k * Q2R q.
Proof. unfold nat_times. now rewrite Q2R_mult, Q2R_inject, INR_IZR_INZ. Qed.

(** One b-th of a figure. *)
Definition part (q : Q) (b : positive) : Q := Qnum q # (Qden q * b).

Lemma part_times q b : INR (Pos.to_nat b) * Q2R (part q b) = Q2R q.
Proof.
  unfold Q2R, part. simpl. rewrite INR_IZR_INZ, positive_nat_Z, Pos2Z.inj_mul, mult_IZR.
  field. split; apply not_0_IZR; discriminate.
Qed.

(** A sum over a list of rationals, by place. *)
Lemma total_by_place {A} (l : list A) (q : A -> Q) d n :
  length l = n -> total (seq 0 n) (fun c => Q2R (q (nth c l d))) = Q2R (sum_of (map q l)).
Proof.
  intros <-. unfold sum_of. induction l as [|a l IH]; simpl; [unfold Q2R; simpl; lra|].
  rewrite Q2R_plus, <- IH, <- seq_shift, total_map. reflexivity.
Qed.

(** ** The integers of a metric *)

Definition is_valid (m : metric) : bool :=
  ((0 <? low m) && (2 * low m <=? SCALE) && (0 <=? flip m) && (2 * flip m <=? SCALE))%Z
  && forallb (fun t => Nat.eqb (length t) (classes m)
                       && forallb (fun T => (low m <=? T) && (T <=? SCALE - low m))%Z t) (tables m).

Lemma is_valid_sound m : is_valid m = true -> valid m.
Proof.
  unfold is_valid. intros H. rewrite !andb_true_iff, forallb_forall in H.
  destruct H as [[[[H1 H2] H3] H4] H5]. apply Z.ltb_lt in H1. apply Z.leb_le in H2, H3, H4.
  constructor; simpl; try (split; assumption).
  intros t It. specialize (H5 t It). rewrite andb_true_iff, forallb_forall in H5. destruct H5 as [L F].
  apply Nat.eqb_eq in L. split; [assumption|]. apply Forall_forall. intros T IT. specialize (F T IT).
  rewrite andb_true_iff in F. destruct F as [F1 F2]. apply Z.leb_le in F1, F2. now split.
Qed.

(** The most bits that differ in law between two classes: 1 or 2. *)
Definition changed_bits (m : metric) : nat :=
  list_max (flat_map (fun c => map (changed m c) (seq 0 (classes m))) (seq 0 (classes m))).

Lemma changed_bits_sound m c c' : (c < classes m)%nat -> (c' < classes m)%nat -> (changed m c c' <= changed_bits m)%nat.
Proof.
  intros H H'. unfold changed_bits.
  pose proof (proj1 (list_max_le _ _) (Nat.le_refl (changed_bits m))) as F. rewrite Forall_forall in F.
  apply F, in_flat_map. exists c. split; [apply in_seq; lia|]. apply in_map, in_seq. lia.
Qed.

Definition positive_bits (m : metric) : positive := Pos.of_nat (Nat.max 1 (changed_bits m)).
Definition positive_width (m : metric) : positive := Pos.of_nat (Nat.max 1 (length (tables m))).

Lemma few_bits m c c' :
  (c < classes m)%nat -> (c' < classes m)%nat -> (changed m c c' <= Pos.to_nat (positive_bits m))%nat.
Proof. intros B B'. pose proof (changed_bits_sound m c c' B B'). unfold positive_bits. rewrite Nat2Pos.id; lia. Qed.

(** Whether all classes but [s] have one threshold. *)
Definition special_but (t : list Z) (s : nat) : bool :=
  forallb (fun c => forallb (fun c' => Nat.eqb c s || Nat.eqb c' s || (nth c t 0 =? nth c' t 0)%Z)
                            (seq 0 (length t))) (seq 0 (length t)).
Definition has_special (t : list Z) : bool := existsb (special_but t) (seq 0 (length t)).

Lemma has_special_sound t : has_special t = true -> one_special t.
Proof.
  unfold has_special. rewrite existsb_exists. intros [s [_ H]]. exists s. intros c c' N N' B B'.
  unfold special_but in H. rewrite forallb_forall in H. specialize (H c ltac:(apply in_seq; lia)).
  rewrite forallb_forall in H. specialize (H c' ltac:(apply in_seq; lia)).
  apply orb_prop in H as [H|H].
  - apply orb_prop in H as [H|H]; apply Nat.eqb_eq in H; contradiction.
  - now apply Z.eqb_eq.
Qed.

(** ** Devices of one pattern, with hints that nobody has to trust *)

Inductive pattern_hint :=
  | Histogram (h : Q)                    (* (2^64 - low)/low <= e^h *)
  | Prices (ps : list (Q * Q)).          (* a mean: per cell, what it costs on either side of the matching *)

(** Every pair of cells costs no more than the price of one on the left and that of the other on the right. *)
Definition check_prices (t : list Z) (ps : list (Q * Q)) : bool :=
  let known := combine t (map (fun p => (exp_below (fst p), exp_below (snd p))) ps) in
  Nat.eqb (length ps) (length t) &&
  forallb (fun p => (0 <=? Qnum (fst p)) && (0 <=? Qnum (snd p)))%Z ps &&
  forallb (fun T => (0 <=? T) && (T <=? SCALE))%Z t &&
  forallb (fun u => forallb (fun v =>
    let factor := (fst (snd u) * snd (snd v))%Z in
    (fst u * (ONE * ONE) <=? factor * fst v) && ((SCALE - fst u) * (ONE * ONE) <=? factor * (SCALE - fst v)))%Z known) known.

Definition check_lifetime (m : metric) (F : Q) (h : pattern_hint) : bool :=
  match h, tables m with
  | Histogram q, ts => forallb has_special ts && le_exp (SCALE - low m) (low m) q
      && Qle_bool (nat_times (Nat.min (changed_bits m * classes m) (2 * length ts)) q) F
  | Prices ps, [t] => check_prices t ps && Qle_bool (sum_of (map (fun p => fst p + snd p)%Q ps)) F
  | _, _ => false
  end.

Lemma check_prices_sound t ps :
  check_prices t ps = true ->
  length ps = length t /\ (forall c, 0 <= Q2R (fst (nth c ps (0, 0)%Q)) /\ 0 <= Q2R (snd (nth c ps (0, 0)%Q))) /\
  forall u v, (u < length t)%nat -> (v < length t)%nat ->
    between (Q2R (fst (nth u ps (0, 0)%Q)) + Q2R (snd (nth v ps (0, 0)%Q))) (nth u t 0%Z) (nth v t 0%Z).
Proof.
  unfold check_prices. cbv zeta. rewrite !andb_true_iff. intros [[[HL HN] HT] HP].
  apply Nat.eqb_eq in HL. rewrite forallb_forall in HN, HT, HP.
  assert (NN : forall c, (0 <= Qnum (fst (nth c ps (0, 0)%Q)))%Z /\ (0 <= Qnum (snd (nth c ps (0, 0)%Q)))%Z).
  { intros c. destruct (le_lt_dec (length ps) c) as [B|B].
    - rewrite nth_overflow by assumption. simpl. lia.
    - specialize (HN _ (nth_In ps (0, 0)%Q B)). apply andb_prop in HN as [A1 A2]. apply Z.leb_le in A1, A2. auto. }
  split; [assumption|]. split; [intros c; destruct (NN c); split; now apply Q2R_nonneg|].
  intros u v Bu Bv.
  set (f := fun p : Q * Q => (exp_below (fst p), exp_below (snd p))) in *.
  assert (K : forall c, (c < length t)%nat ->
              In (nth c t 0%Z, f (nth c ps (0, 0)%Q)) (combine t (map f ps))).
  { intros c Bc. replace (f (nth c ps (0, 0)%Q)) with (nth c (map f ps) (f (0, 0)%Q)) by apply map_nth.
    rewrite <- combine_nth by (now rewrite map_length). apply nth_In. rewrite combine_length, map_length. lia. }
  specialize (HP _ (K u Bu)). rewrite forallb_forall in HP. specialize (HP _ (K v Bv)).
  unfold f in HP. cbn [fst snd] in HP. apply andb_prop in HP as [A1 A2].
  destruct (NN u) as [Nu _], (NN v) as [_ Nv].
  pose proof (HT _ (nth_In t 0%Z Bv)) as R. apply andb_prop in R as [R1 R2]. apply Z.leb_le in R1, R2.
  split; (apply exp_below_pair; auto; lia).
Qed.

Lemma coin_of_integers lo L : IZR (SCALE - lo) <= exp L * IZR lo -> coin_for L lo.
Proof. unfold coin_for. rewrite minus_IZR. lra. Qed.

Lemma check_lifetime_sound m F h : valid m -> check_lifetime m F h = true -> bounds (Q2R F) (of_patterns m).
Proof.
  intros V HC X Y [cs [cs' [SP [B [B' [-> ->]]]]]]. unfold check_lifetime in HC.
  assert (Lt : forall t, tables m = [t] -> length t = classes m).
  { intros t E. apply (valid_m_tables _ V t). rewrite E. simpl. auto. }
  destruct h as [q | ps].
  - rewrite !andb_true_iff, forallb_forall in HC. destruct HC as [[H1 H2] H3].
    pose proof (le_exp_nonneg _ _ _ H2) as e0. apply le_exp_sound in H2. apply Qle_bool_R in H3. rewrite Q2R_nat_times in H3.
    eapply loss_weaken; [|apply loss_by_width_of_histogram with (h := Q2R q) (two := changed_bits m);
      auto using coin_of_integers, has_special_sound, changed_bits_sound].
    eapply Rle_trans; [|exact H3]. apply Rmult_le_compat_r; [assumption|]. apply le_INR.
    apply Nat.min_le_compat_r, Nat.mul_le_mono_l. pose proof (width_bound _ _ B). lia.
  - destruct (tables m) as [|t [|]] eqn:ET; try discriminate. specialize (Lt t eq_refl).
    apply andb_prop in HC as [H1 H2]. apply Qle_bool_R in H2. apply check_prices_sound in H1 as [HL [HN HB]].
    eapply loss_weaken; [exact H2|]. rewrite <- (total_by_place ps _ (0, 0)%Q (classes m)) by congruence.
    rewrite (total_ext _ _ (fun c => Q2R (fst (nth c ps (0, 0)%Q)) + Q2R (snd (nth c ps (0, 0)%Q))))
      by (intros; apply Q2R_plus).
    rewrite <- (Rplus_0_l (total _ _)), <- (Rmult_0_r (INR (width cs))).
    apply loss_by_prices with (table := t) (alpha := fun c => Q2R (fst (nth c ps (0, 0)%Q)))
                              (beta := fun c => Q2R (snd (nth c ps (0, 0)%Q))); auto; try lra; try (intros c; apply HN).
    intros u v Hu Hv. rewrite Rplus_0_l. apply HB; lia.
Qed.

(** ** The five figures *)

Record hints := {
  pattern : pattern_hint;
  memo : Q;             (* a with 2^64/low <= e^a *)
  lambda : Q            (* L with (2^64 - flip)/flip <= e^L *)
}.

Definition check_round (m : metric) (q : Q) : bool :=
  let lo := low m in let G := flip m in
  is_valid m
  && le_exp ((SCALE - lo) * (SCALE - G) + lo * G) (lo * (SCALE - G) + (SCALE - lo) * G) (part q (positive_bits m)).

Definition check (m : metric) (f : figures) (h : hints) : bool :=
  let lo := low m in let G := flip m in
  check_round m (round f)
  && le_exp (SCALE - lo) lo (part (constant f) (positive_bits m))
  && check_lifetime m (lifetime f) (pattern h)
  && match change_per_round f with
     | None => true
     | Some F => le_exp (SCALE - G) G (part F (positive_width m))
     end
  && match any_history f with
     | None => true
     | Some F =>
         le_exp SCALE lo (memo h) && le_exp (SCALE - G) G (lambda h)
         && (Qle_bool (nat_times (length (tables m)) (nat_times (Nat.min (classes m) (rounds f)) (memo h)
                                                      + nat_times (rounds f / 2) (lambda h))) F
             || Qle_bool (nat_times (length (tables m)) (nat_times (rounds f) (lambda h))) F)
     end.

Lemma covers_one_round lo G L :
  IZR ((SCALE - lo) * (SCALE - G) + lo * G) <= exp L * IZR (lo * (SCALE - G) + (SCALE - lo) * G) -> covers lo G 1 L.
Proof.
  intros H. unfold covers. rewrite !pow_1, <- !share_rest. pose proof IZR_SCALE_positive as S.
  rewrite !plus_IZR, !mult_IZR, <- !(share_times lo), <- !(share_times G), <- !(share_times (SCALE - lo)),
    <- !(share_times (SCALE - G)) in H.
  apply (Rmult_le_reg_r (IZR SCALE * IZR SCALE)); [nra | lra].
Qed.

Lemma check_round_sound m q : check_round m q = true -> valid m /\ bounds (Q2R q) (of_values one_round m).
Proof.
  unfold check_round. cbv zeta. rewrite andb_true_iff. intros [H1 H2]. pose proof (is_valid_sound m H1) as V.
  split; [assumption|]. rewrite <- (part_times q (positive_bits m)). apply loss_of_constant_device; auto using few_bits.
  - now apply le_exp_nonneg in H2.
  - apply covers_one_round. now apply le_exp_sound in H2.
Qed.

Theorem check_sound m f h : check m f h = true -> claims m f.
Proof.
  intros HC. unfold check in HC. cbv zeta in HC. rewrite !andb_true_iff in HC. destruct HC as [[[[H2 H3] H4] H5] H6].
  destruct (check_round_sound _ _ H2) as [V HR]. constructor.
  - exact HR.
  - intros X Y [S [W [secret [class_of [xs [ys [HC [[n HH] E]]]]]]]].
    enough (K : bounds (Q2R (constant f)) (of_values (held_for n) m)) by (apply K; exists S, W; eauto 10).
    rewrite <- (part_times (constant f) (positive_bits m)). pose proof (le_exp_nonneg _ _ _ H3).
    apply loss_of_constant_device; auto using few_bits.
    apply formula_of_all_rounds; auto using (valid_m_low m V), (valid_m_flip m V).
    apply coin_of_integers. now apply le_exp_sound.
  - now apply check_lifetime_sound with (pattern h).
  - intros F EF delta. rewrite EF in H5. rewrite <- (part_times F (positive_width m)), <- Rmult_assoc.
    pose proof (le_exp_nonneg _ _ _ H5) as e0. apply le_exp_sound in H5. intros X Y HXY.
    eapply loss_weaken; [|apply (loss_of_moved_change m (Q2R (part F (positive_width m))) delta); eauto].
    apply Rmult_le_compat_r; [assumption|]. apply Rmult_le_compat_l; [apply pos_INR|]. apply le_INR.
    unfold positive_width. rewrite Nat2Pos.id; lia.
  - intros F EF X Y HXY. rewrite EF in H6. rewrite !andb_true_iff in H6. destruct H6 as [[A B] C].
    pose proof (le_exp_nonneg _ _ _ A) as a0. pose proof (le_exp_nonneg _ _ _ B) as b0. apply le_exp_sound in A, B.
    eapply loss_weaken; [|apply (loss_of_any_histories m (Q2R (memo h)) (Q2R (lambda h)) (rounds f)); eauto].
    set (p := INR (Nat.min (classes m) (rounds f)) * Q2R (memo h) + INR (rounds f / 2) * Q2R (lambda h)).
    set (q := INR (rounds f) * Q2R (lambda h)).
    pose proof (Rmin_l p q). pose proof (Rmin_r p q). pose proof (pos_INR (length (tables m))) as d0.
    apply orb_prop in C as [C|C]; apply Qle_bool_R in C;
      rewrite ?Q2R_nat_times, ?Q2R_plus, ?Q2R_nat_times in C; fold p q in C;
      (eapply Rle_trans; [|exact C]); now apply Rmult_le_compat_l.
Qed.

(** ** Groups: counters alike *)

(** The condition [enough] for chances a/D of a 1 at value 0, in whole numbers. *)
Definition check_enough (a D top limit : Z) (t r : nat) (F : Q) : bool :=
  let rz := Z.of_nat r in
  let spread := Z.min limit (rz * top) in
  let heaped := Z.min limit (Z.of_nat (t - r) * top) in
  let k := (heaped / top)%Z in
  le_exp ((a * top * rz + (D - 2 * a) * spread) ^ rz * ((D - a) ^ k * ((D - a) * top)))
         ((a * top * rz) ^ rz * (a ^ k * ((D - a) * top - (D - 2 * a) * (heaped mod top)))) F.

Lemma min_of_parts limit top n :
  (0 < top)%Z -> Rmin (IZR limit / IZR top) (INR n) = IZR (Z.min limit (Z.of_nat n * top)) / IZR top.
Proof.
  intros H. apply IZR_lt in H. assert (E : INR n = IZR (Z.of_nat n * top) / IZR top) by (rewrite mult_IZR, <- INR_IZR_INZ; field; lra).
  assert (I : 0 <= / IZR top) by (left; now apply Rinv_0_lt_compat). rewrite E.
  destruct (Z.min_spec limit (Z.of_nat n * top)) as [[C ->]|[C ->]]; [apply Rmin_left | apply Rmin_right];
    (apply Rmult_le_compat_r; [assumption|]); apply IZR_le; lia.
Qed.

Lemma divided N M U V e : 0 < M -> 0 < V -> N * V <= e * (M * U) -> N / M <= e * (U / V).
Proof.
  intros HM HV H. apply (Rmult_le_reg_r (M * V)); [now apply Rmult_lt_0_compat|].
  replace (N / M * (M * V)) with (N * V) by (field; lra). replace (e * (U / V) * (M * V)) with (e * (M * U)) by (field; lra).
  exact H.
Qed.

Lemma pow_divided N M r : 0 < M -> (N / M) ^ r = N ^ r / M ^ r.
Proof. intros H. unfold Rdiv. now rewrite Rpow_mult_distr, pow_inv. Qed.

(** [enough] with l = a/D and the limit in whole numbers, all denominators multiplied out: k is the quotient of what can
    be heaped on zeros by the range, f the rest, and each side of the check is a side of [enough] times one factor. *)
Lemma check_enough_sound a D top limit t r F :
  (0 < a)%Z -> (2 * a <= D)%Z -> (0 < top)%Z -> (0 <= limit)%Z ->
  check_enough a D top limit t r F = true -> enough (IZR a / IZR D) (IZR limit / IZR top) t r (Q2R F).
Proof.
  intros Ha HD HT HL H. unfold check_enough in H. cbv zeta in H. apply le_exp_sound in H. unfold enough.
  rewrite !min_of_parts by assumption. set (spread := Z.min limit (Z.of_nat r * top)) in *.
  set (heaped := Z.min limit (Z.of_nat (t - r) * top)) in *.
  pose proof (IZR_lt _ _ Ha) as Ra. pose proof (IZR_lt _ _ HT) as RT.
  assert (RD : 2 * IZR a <= IZR D) by (rewrite <- mult_IZR; now apply IZR_le).
  pose proof (Z.div_mod heaped top ltac:(lia)) as DM. pose proof (Z.mod_pos_bound heaped top HT) as [MB1 MB2].
  assert (K0 : (0 <= heaped / top)%Z) by (apply Z.div_pos; unfold heaped; nia).
  set (k := Z.to_nat (heaped / top)). assert (Ek : (heaped / top)%Z = Z.of_nat k) by (unfold k; now rewrite Z2Nat.id).
  rewrite Ek in H, DM. set (rest := (heaped mod top)%Z) in *. apply IZR_le in MB1. apply IZR_lt in MB2.
  rewrite !mult_IZR, <- !pow_IZR, !minus_IZR, !plus_IZR, !mult_IZR, !minus_IZR, !mult_IZR, <- INR_IZR_INZ in H.
  exists k, (IZR rest / IZR top). split; [|split].
  - split; [apply Rmult_le_pos; [assumption | left; now apply Rinv_0_lt_compat]|].
    apply (Rmult_le_reg_r (IZR top)); [assumption|]. field_simplify; lra.
  - rewrite DM, plus_IZR, mult_IZR, <- INR_IZR_INZ. right. field. lra.
  - assert (Da : 0 < IZR D - IZR a) by lra. set (d := IZR D - IZR a) in *. set (s := IZR D - 2 * IZR a) in *.
    replace ((1 - 2 * (IZR a / IZR D)) / (IZR a / IZR D)) with (s / IZR a) by (unfold s; field; lra).
    replace ((1 - 2 * (IZR a / IZR D)) / (1 - IZR a / IZR D)) with (s / d) by (unfold s, d; field; lra).
    replace (1 - s / d) with (IZR a / d) by (unfold s, d; field; lra).
    replace (1 - s / d * (IZR rest / IZR top)) with ((d * IZR top - s * IZR rest) / (d * IZR top)) by (field; lra).
    rewrite pow_divided by assumption. assert (P : 0 < d ^ k) by now apply pow_lt.
    replace (IZR a ^ k / d ^ k * ((d * IZR top - s * IZR rest) / (d * IZR top)))
      with (IZR a ^ k * (d * IZR top - s * IZR rest) / (d ^ k * (d * IZR top))) by (field; lra).
    set (M := IZR a * IZR top * INR r) in *. set (N := M + s * IZR spread) in *.
    assert (Rr : 0 < M ^ r /\ (1 + s / IZR a * (IZR spread / IZR top) / INR r) ^ r = N ^ r / M ^ r).
    { destruct r as [|r']; [simpl; split; lra|]. assert (R1 : 0 < INR (S r')) by (apply lt_0_INR; lia).
      assert (M0 : 0 < M) by (unfold M; repeat apply Rmult_lt_0_compat; assumption).
      split; [now apply pow_lt|]. rewrite <- pow_divided by assumption. f_equal. unfold N, M. field. lra. }
    destruct Rr as [M0 ->]. apply divided; [assumption| |exact H]. apply Rmult_lt_0_compat; [assumption|].
    now apply Rmult_lt_0_compat.
Qed.

Fixpoint increasing_b (points : list Z) : bool :=
  match points with
  | l :: ((r :: _) as rest) => (l <? r)%Z && increasing_b rest
  | _ => true
  end.

Definition valid_counter_b (c : counter) : bool :=
  ((hd 1 (points c) =? 0) && increasing_b (points c) && (1 <? length (points c))%nat
   && (0 <? counter_low c) && (2 * counter_low c <=? SCALE) && (0 <=? counter_flip c) && (2 * counter_flip c <=? SCALE))%Z.

Lemma valid_counter_sound c : valid_counter_b c = true -> valid_counter c /\ (0 < top c)%Z.
Proof.
  unfold valid_counter_b. rewrite !andb_true_iff. intros [[[[[[H1 H2] H3] H4] H5] H6] H7].
  apply Z.eqb_eq in H1. apply Nat.ltb_lt in H3. apply Z.ltb_lt in H4. apply Z.leb_le in H5, H6, H7.
  assert (I : forall l, increasing_b l = true -> increasing l).
  { induction l as [|l [|r rest] IH]; intros H; try exact I. apply andb_prop in H as [A B].
    split; [now apply Z.ltb_lt | now apply IH]. }
  assert (V : valid_counter c) by (repeat split; auto). split; [assumption|].
  apply (valid_points_range _ (proj1 V)).
Qed.

(** The chance of a 1 at value 0, as a fraction of whole numbers: as it is sent, and as it is remembered. *)
Definition seen_parts (c : counter) : Z * Z :=
  (counter_low c * (SCALE - counter_flip c) + (SCALE - counter_low c) * counter_flip c, SCALE * SCALE)%Z.
Definition kept_parts (c : counter) : Z * Z := (counter_low c, SCALE).

Definition check_alike (low_of : counter -> Z * Z) (c : counter) (t : nat) (limit : Z) (F : Q) : bool :=
  forallb (fun r => check_enough (fst (low_of c)) (snd (low_of c)) (top c) limit t r F) (seq 0 (S t)).

(** ** Groups: unlike counters, at prices that nobody has to trust *)

(** Per counter its gain and the point of the tangent, as parts of its range; prices are per unit of value. *)
Record joint_hints := { of_ones : Q; of_zeros : Q; gains : list (counter * (Q * Q)) }.

Definition check_gain (a D : Z) (top limit : Z) (lambda mu : Q) (gain x0 : Q) : bool :=
  let m := if (top <=? limit)%Z then 1%Q else (limit # Z.to_pos top)%Q in
  let per := Qred (lambda * inject_Z top) in
  let at_x0 := Qred (gain + per * x0) in
  let left := Qred (1 + per * (0 - x0)) in
  let right := Qred (1 + per * (m - x0)) in
  ((0 <=? Qnum gain) && (0 <? top) && (0 <? limit))%Z
  && le_exp (Zpos (Qden left)) (Qnum left) at_x0
  && le_exp ((a * Zpos (Qden m) + (D - 2 * a) * Qnum m) * Zpos (Qden right)) (a * Zpos (Qden m) * Qnum right) at_x0
  && le_exp ((D - a) * Zpos (Qden m)) ((D - a) * Zpos (Qden m) - (D - 2 * a) * Qnum m) (Qred (gain + mu * inject_Z top * m)).

Definition same_counter (c d : counter) : bool :=
  (if list_eq_dec Z.eq_dec (points c) (points d) then true else false)
  && (counter_low c =? counter_low d)%Z && (counter_flip c =? counter_flip d)%Z.

Lemma same_counter_sound c d : same_counter c d = true -> c = d.
Proof.
  unfold same_counter. rewrite !andb_true_iff. intros [[A B] C]. apply Z.eqb_eq in B, C.
  destruct (list_eq_dec _ _ _) as [E|]; [|discriminate]. destruct c, d. simpl in *. congruence.
Qed.

(** A counter's gain and tangent. *)
Definition gain_of (h : joint_hints) (c : counter) : Q * Q :=
  match find (fun known => same_counter c (fst known)) (gains h) with Some known => snd known | None => (0, 0)%Q end.

Definition check_unlike (low_of : counter -> Z * Z) (cs : list counter) (limit : Z) (h : joint_hints) (F : Q) : bool :=
  Qle_bool 0 (of_ones h) && Qle_bool 0 (of_zeros h)
  && forallb (fun c => check_gain (fst (low_of c)) (snd (low_of c)) (top c) limit (of_ones h) (of_zeros h)
                                  (fst (gain_of h c)) (snd (gain_of h c))) cs
  && Qle_bool ((of_ones h + of_zeros h) * inject_Z limit + sum_of (map (fun c => fst (gain_of h c)) cs)) F.

Lemma check_gain_sound a D top limit lambda mu gain x0 :
  (0 < a)%Z -> (2 * a <= D)%Z -> check_gain a D top limit lambda mu gain x0 = true ->
  let l := IZR a / IZR D in let m := Rmin 1 (IZR limit / IZR top) in
  gains_at_most l m (IZR top) (Q2R lambda) (Q2R mu) (Q2R gain).
Proof.
  intros Ha HD H l m. unfold gains_at_most, check_gain in H. cbv zeta in H. rewrite !andb_true_iff in H.
  destruct H as [[[[[G0 T0] L0] H1] H2] H3]. apply Z.leb_le in G0. apply Z.ltb_lt in T0, L0.
  set (mq := if (top <=? limit)%Z then 1%Q else (limit # Z.to_pos top)%Q) in *.
  apply IZR_lt in Ha as Ra. apply IZR_le in HD as RD. rewrite mult_IZR in RD. apply IZR_lt in T0 as RT. apply IZR_lt in L0 as RL.
  assert (Em : Q2R mq = m /\ 0 < m <= 1).
  { unfold mq, m. destruct (Z.leb_spec top limit) as [C|C]; apply IZR_le in C || apply IZR_lt in C.
    - rewrite Rmin_left; [unfold Q2R; simpl; lra|]. apply (Rmult_le_reg_r (IZR top)); [assumption|]. field_simplify; lra.
    - rewrite Rmin_right; [|apply (Rmult_le_reg_r (IZR top)); [assumption|]; field_simplify; lra].
      unfold Q2R. cbn [Qnum Qden]. rewrite Z2Pos.id by assumption. split; [reflexivity|].
      split; [now apply Rdiv_lt_0_compat|]. apply (Rmult_le_reg_r (IZR top)); [assumption|]. field_simplify; lra. }
  destruct Em as [Em m01].
  apply le_exp_sound in H1, H2, H3. rewrite !Q2R_red, !Q2R_plus, !Q2R_mult, Q2R_red, !Q2R_mult, !Q2R_inject in H1, H2.
  rewrite Q2R_red, Q2R_plus, !Q2R_mult, Q2R_inject, Em in H3.
  set (left := Qred (1 + _ * (0 - x0))) in *. set (right := Qred (1 + _ * (mq - x0))) in *.
  assert (EL : Q2R left = 1 + Q2R lambda * IZR top * (0 - Q2R x0)).
  { unfold left. rewrite Q2R_red, Q2R_plus, Q2R_mult, Q2R_red, Q2R_mult, Q2R_minus, Q2R_inject, RMicromega.Q2R_0, RMicromega.Q2R_1. ring. }
  assert (ER : Q2R right = 1 + Q2R lambda * IZR top * (m - Q2R x0)).
  { unfold right. rewrite Q2R_red, Q2R_plus, Q2R_mult, Q2R_red, Q2R_mult, Q2R_minus, Q2R_inject, Em, RMicromega.Q2R_1. ring. }
  assert (pos : forall p, 0 < IZR (Zpos p)) by (intros; now apply IZR_lt).
  pose proof (pos (Qden left)) as DL. pose proof (pos (Qden right)) as DR. pose proof (pos (Qden mq)) as DM.
  pose proof (Q2R_parts left) as PL. pose proof (Q2R_parts right) as PR. pose proof (Q2R_parts mq) as PM.
  rewrite Em in PM. rewrite EL in PL. rewrite ER in PR.
  rewrite !mult_IZR, plus_IZR, !mult_IZR, !minus_IZR, !mult_IZR in H2. rewrite minus_IZR, !mult_IZR, !minus_IZR, !mult_IZR in H3.
  rewrite <- PL in H1. rewrite <- PR, <- PM in H2. rewrite <- PM in H3.
  pose proof (Q2R_nonneg gain G0) as g0.
  assert (l01 : 0 < l <= 1 / 2).
  { unfold l. split; [apply Rdiv_lt_0_compat; lra|]. apply (Rmult_le_reg_r (IZR D)); [lra|]. field_simplify; lra. }
  split.
  - intros x Hx. replace (Q2R lambda * (IZR top * x)) with (Q2R lambda * IZR top * x) by ring.
    apply (ones_by_tangent ((1 - 2 * l) / l) (Q2R gain) (Q2R lambda * IZR top) (Q2R x0) m); try lra.
    + apply (Rmult_le_reg_r (IZR (Zpos (Qden left)))); [assumption|]. lra.
    + apply (Rmult_le_reg_r (IZR a * IZR (Zpos (Qden mq)) * IZR (Zpos (Qden right)))); [apply Rmult_lt_0_compat; nra|].
      replace ((1 + (1 - 2 * l) / l * m) * (IZR a * IZR (Zpos (Qden mq)) * IZR (Zpos (Qden right))))
        with ((IZR a * IZR (Zpos (Qden mq)) + (IZR D - 2 * IZR a) * (m * IZR (Zpos (Qden mq)))) * IZR (Zpos (Qden right)))
        by (unfold l; field; lra).
      eapply Rle_trans; [exact H2|]. right. ring.
  - intros y Hy. replace (Q2R mu * (IZR top * y)) with (Q2R mu * IZR top * y) by ring.
    assert (Ec : (1 - 2 * l) / (1 - l) = (IZR D - 2 * IZR a) / (IZR D - IZR a)) by (unfold l; field; lra).
    rewrite Ec. apply (zeros_by_ends _ _ _ m); try lra.
    + split; [apply Rmult_le_pos; [|lra]; apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
      apply (Rmult_lt_reg_r (IZR D - IZR a)); [lra|]. field_simplify; [nra | lra].
    + apply (Rmult_le_reg_r ((IZR D - IZR a) * IZR (Zpos (Qden mq)))); [apply Rmult_lt_0_compat; lra|]. rewrite Rmult_1_l.
      eapply Rle_trans; [exact H3|]. right. field. lra.
Qed.

(** One way or the other: alike if there are no gains. *)
Definition check_joint (low_of : counter -> Z * Z) (cs : list counter) (limit : Z) (h : joint_hints) (F : Q) : bool :=
  match gains h, cs with
  | [], c :: _ => forallb (same_counter c) cs && check_alike low_of c (length cs) limit F
  | _, _ => check_unlike low_of cs limit h F
  end.

(** ** Groups of which some are asked *)

Inductive group_hint :=
  | BySize (costs : list Q)                            (* counters alike: by how many are asked *)
  | Whole (cost : Q) (h : joint_hints)                 (* all of them, or fewer *)
  | BySet (costs : list Q) (hs : list joint_hints).    (* by how many are asked, with hints for each set *)

Definition costs_of (k : nat) (g : group_hint) : list Q :=
  match g with BySize costs => costs | Whole q _ => repeat q (S k) | BySet costs _ => costs end.

(** All sets of at most k of t, and the members of one. *)
Fixpoint sets (t k : nat) : list (list bool) :=
  match t with
  | O => [[]]
  | S t' => map (cons false) (sets t' k) ++ match k with O => [] | S k' => map (cons true) (sets t' k') end
  end.
Fixpoint chosen {A} (set : list bool) (l : list A) : list A :=
  match set, l with
  | b :: set', a :: l' => if b then a :: chosen set' l' else chosen set' l'
  | _, _ => []
  end.

Lemma sets_are_all ms k :
  (length (filter member_asked ms) <= k)%nat -> In (map member_asked ms) (sets (length ms) k).
Proof.
  revert k. induction ms as [|t ms IH]; intros k H; simpl in *; [auto|]. apply in_app_iff.
  destruct (member_asked t); [right | left; now apply in_map, IH]. simpl in H. destruct k as [|k]; [lia|].
  apply in_map, IH. lia.
Qed.

Lemma chosen_members ms : chosen (map member_asked ms) (map counts ms) = map counts (filter member_asked ms).
Proof. induction ms as [|t ms IH]; simpl; [reflexivity|]. destruct (member_asked t); simpl; now rewrite IH. Qed.

Definition check_group (low_of : counter -> Z * Z) (cs : list counter) (limit : Z) (k : nat) (g : group_hint) : bool :=
  forallb valid_counter_b cs && (0 <=? limit)%Z &&
  match g, cs with
  | BySize costs, c :: _ => forallb (same_counter c) cs
      && forallb (fun s => check_alike low_of c s limit (nth s costs 0%Q)) (seq 0 (S (Nat.min k (length cs))))
  | Whole q h, _ => check_joint low_of cs limit h q
  | BySet costs hs, _ => let all := sets (length cs) k in
      Nat.eqb (length hs) (length all)
      && forallb (fun sh => let asked := chosen (fst sh) cs in
                            check_joint low_of asked limit (snd sh) (nth (length asked) costs 0%Q)) (combine all hs)
  | _, _ => false
  end.

Section Groups.
  Variables (low_of : counter -> Z * Z) (l : counter -> R) (limit : Z) (n : nat).

  (** The fraction is the chance in question, and what it bounds is what is sent in n rounds. *)
  Hypothesis parts_are_right : forall c, valid_counter c -> 0 < l c <= 1 / 2 /\
    l c = IZR (fst (low_of c)) / IZR (snd (low_of c)) /\ (0 < fst (low_of c))%Z /\ (2 * fst (low_of c) <= snd (low_of c))%Z.
  Hypothesis of_programs : forall ms F, (forall c, In c (map counts ms) -> valid_counter c) ->
    joint_bound l limit (map counts ms) F -> within_limit limit ms -> group_loss F n ms.

  Lemma check_alike_sound c t F :
    valid_counter c -> (0 < top c)%Z -> (0 <= limit)%Z -> check_alike low_of c t limit F = true ->
    joint_bound l limit (repeat c t) (Q2R F).
  Proof.
    intros V T L H. unfold check_alike in H. rewrite forallb_forall in H. destruct (parts_are_right c V) as [Hl [E [P1 P2]]].
    apply joint_bound_of_alike; auto. intros r Hr. rewrite E. apply check_enough_sound; auto. apply H, in_seq. lia.
  Qed.

  Lemma check_unlike_sound cs h F :
    (forall c, In c cs -> valid_counter c) -> check_unlike low_of cs limit h F = true -> joint_bound l limit cs (Q2R F).
  Proof.
    intros HC H. unfold check_unlike in H. rewrite !andb_true_iff, forallb_forall in H.
    destruct H as [[[H1 H2] HG] HF]. apply Qle_bool_R in H1, H2, HF. rewrite RMicromega.Q2R_0 in H1, H2.
    rewrite Q2R_plus, Q2R_mult, Q2R_plus, Q2R_inject in HF.
    apply (joint_bound_of_unlike l limit cs (Q2R (of_ones h)) (Q2R (of_zeros h)) (fun c => Q2R (fst (gain_of h c)))); auto.
    - intros c I. destruct (parts_are_right c (HC c I)) as [Hl [E [P1 P2]]]. split; [assumption|]. rewrite E.
      apply (check_gain_sound _ _ _ _ _ _ _ (snd (gain_of h c))); auto.
    - enough (S : total cs (fun c => Q2R (fst (gain_of h c))) = Q2R (sum_of (map (fun c => fst (gain_of h c)) cs))) by lra.
      clear. unfold sum_of. induction cs as [|c cs IH]; simpl; [symmetry; apply RMicromega.Q2R_0 | now rewrite Q2R_plus, IH].
  Qed.

  Lemma check_joint_sound cs h F :
    (forall c, In c cs -> valid_counter c /\ (0 < top c)%Z) -> (0 <= limit)%Z ->
    check_joint low_of cs limit h F = true -> joint_bound l limit cs (Q2R F).
  Proof.
    intros HC HL H. unfold check_joint in H.
    assert (U : check_unlike low_of cs limit h F = true -> joint_bound l limit cs (Q2R F))
      by (apply check_unlike_sound; intros; now apply HC).
    destruct (gains h) as [|g gs]; [|auto]. destruct cs as [|c cs]; [auto|].
    apply andb_prop in H as [S H]. rewrite forallb_forall in S. replace (c :: cs) with (repeat c (length (c :: cs))).
    - destruct (HC c (or_introl eq_refl)). now apply check_alike_sound.
    - symmetry. apply Forall_eq_repeat, Forall_forall. intros d Id. apply same_counter_sound, S, Id.
  Qed.

  Lemma check_group_sound cs k g :
    check_group low_of cs limit k g = true -> block_costs k (group cs limit n) (costs_of k g).
  Proof.
    unfold check_group. rewrite !andb_true_iff, forallb_forall. intros [[HV HL] H]. apply Z.leb_le in HL.
    assert (V : forall c, In c cs -> valid_counter c /\ (0 < top c)%Z) by (intros; now apply valid_counter_sound, HV).
    assert (some : forall ms, map counts ms = cs -> forall c, In c (map counts (filter member_asked ms)) -> In c cs).
    { intros ms <- c I. apply in_map_iff in I as [t [<- I]]. apply filter_In in I. now apply in_map. }
    destruct g as [costs | q h | costs hs]; cbn [costs_of].
    - destruct cs as [|c cs]; [discriminate|]. set (all := c :: cs) in *. apply andb_prop in H as [S H].
      rewrite forallb_forall in S, H. apply costs_of_group. intros ms E W A. apply of_programs.
      + intros d I. now apply V, (some ms).
      + set (s := length (filter member_asked ms)) in *.
        replace (map counts (filter member_asked ms)) with (repeat c s).
        * destruct (V c (or_introl eq_refl)). apply check_alike_sound; auto. apply H, in_seq.
          assert (s <= length all)%nat; [|lia]. rewrite <- E, map_length. unfold s. clear. induction ms as [|t ms IH]; simpl; [lia|].
          destruct (member_asked t); simpl; lia.
        * unfold s. rewrite <- (map_length counts). symmetry. apply Forall_eq_repeat, Forall_forall. intros d I.
          apply same_counter_sound, S, (some ms), I. assumption.
      + now apply within_chosen.
    - apply costs_of_whole_group. intros ms E W. apply of_programs; rewrite ?E; auto; [intros; now apply V|].
      now apply check_joint_sound with h.
    - apply andb_prop in H as [L H]. apply Nat.eqb_eq in L. rewrite forallb_forall in H.
      apply costs_of_group. intros ms E W A. apply of_programs; [intros d I; now apply V, (some ms) | | now apply within_chosen].
      pose proof (sets_are_all ms k A) as I. replace (length ms) with (length cs) in I by (now rewrite <- E, map_length).
      apply (In_nth _ _ []) in I as [i [Hi Ei]]. set (none := {| of_ones := 0; of_zeros := 0; gains := [] |}).
      assert (J : In (map member_asked ms, nth i hs none) (combine (sets (length cs) k) hs)).
      { rewrite <- Ei, <- combine_nth by lia. apply nth_In. rewrite combine_length. lia. }
      specialize (H _ J). cbn [fst snd] in H. rewrite <- E, chosen_members in H.
      rewrite <- (map_length counts (filter member_asked ms)). apply check_joint_sound with (2 := HL) (3 := H).
      intros c I. now apply V, (some ms).
  Qed.
End Groups.

Theorem check_round_of_group cs limit k g :
  check_group seen_parts cs limit k g = true -> block_costs k (group cs limit 1) (costs_of k g).
Proof.
  apply check_group_sound with low_seen.
  - intros c V. split; [apply (lows_bounds c V)|]. destruct V as [_ [[L1 L2] [G1 G2]]]. pose proof SCALE_positive.
    pose proof IZR_SCALE_positive. unfold low_seen, seen_parts, share. cbn [fst snd].
    split; [|split; nia]. rewrite plus_IZR, !mult_IZR, !minus_IZR. field. lra.
  - intros ms F V J W. now apply round_of_group with limit (map counts ms).
Qed.

Theorem check_held_group cs limit k g n :
  check_group kept_parts cs limit k g = true -> block_costs k (group cs limit n) (costs_of k g).
Proof.
  apply check_group_sound with low_kept.
  - intros c V. split; [apply (lows_bounds c V)|]. destruct V as [_ [[L1 L2] _]]. repeat split; auto.
  - intros ms F V J W. now apply held_of_group with limit (map counts ms).
Qed.

(** ** Subset selection *)

Definition check_subset (k size : nat) (a b : Z) (q : Q) : bool :=
  Nat.leb size k && (0 <? b)%Z && (b <=? a)%Z && (Z.of_nat size * a + Z.of_nat (k - size) * b <=? SCALE)%Z && le_exp a b q.

Theorem check_subset_sound k size a b q :
  check_subset k size a b q = true -> bounds (Q2R q) (of_choices k size a b).
Proof.
  unfold check_subset. rewrite !andb_true_iff. intros [[[[H1 H2] H3] H4] H5]. apply Nat.leb_le in H1. apply Z.ltb_lt in H2.
  apply Z.leb_le in H3, H4. apply subset_selection; [constructor; auto | now apply le_exp_nonneg in H5 | now apply le_exp_sound].
Qed.

(** ** Blocks of a plan *)

(** A metric alone, with the integers of every cohort. *)
Theorem costs_of_metric {A} k (c : A -> comparison) cohorts (q : Q) :
  (forall m, In m cohorts -> bounds (Q2R q) (c m)) -> block_costs k (alone (any_of c cohorts)) [0%Q; q].
Proof. intros H. apply costs_of_alone. intros X Y [m [I HXY]]. now apply (H m I). Qed.

Lemma claim_held m f n : claims m f -> bounds (Q2R (constant f)) (of_values (held_for n) m).
Proof.
  intros C X Y [S [V [secret [class_of [xs [ys [HC [HR E]]]]]]]]. apply (claim_constant m f C).
  exists S, V, secret, class_of, xs, ys. repeat split; try assumption; try apply E. now exists n.
Qed.

Lemma claim_one_change m f F :
  claims m f -> change_per_round f = Some F -> bounds (Q2R F) (of_values (fun V => differ_in 1) m).
Proof. intros C E. rewrite <- (Rmult_1_l (Q2R F)). exact (claim_change m f C F E 1). Qed.
