(** * A verified checker for the figures of a plan

    [check] takes the integers that a device compares its words with (reticent plan export) and the figures that
    reticent plan check prints, as exact rationals. If it says true, the claims hold ([check_sound]). It computes with
    whole numbers only, so a certificate is [vm_compute] and [reflexivity].                                        *)

From Coq Require Import Reals ZArith QArith Qreals List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Histories Patterns Rounding Joint Windows Exp.
Import ListNotations.
Open Scope R_scope.

(** ** The integers of a metric, and hints that nobody has to trust *)

Record numbers := { n_tables : list (list Z); n_low : Z; n_flip : Z; n_classes : nat }.

Definition metric_of (n : numbers) (class_of : Z -> Z -> nat) : metric := {|
  tables := n_tables n; low := n_low n; flip := n_flip n; classes := n_classes n; class_of := class_of
|}.

Definition nothing : metric := metric_of {| n_tables := []; n_low := 0; n_flip := 0; n_classes := 0 |} (fun _ _ => O).

Record hints := {
  exponent : Q;         (* h with (2^64 - low)/low <= e^h *)
  odds : list Q;        (* a mean: per cell, a with max/min of threshold and rest <= e^a; empty for a histogram *)
  prices : list (Q * Q);  (* a mean on an uneven grid: per cell, what it costs on either side of the matching *)
  memo : Q;             (* a with 2^64/low <= e^a *)
  lambda : Q            (* L with (2^64 - flip)/flip <= e^L *)
}.

Definition part (q : Q) (b : positive) : Q := Qnum q # (Qden q * b).

Lemma part_times q b : INR (Pos.to_nat b) * Q2R (part q b) = Q2R q.
Proof.
  unfold Q2R, part. simpl. rewrite INR_IZR_INZ, positive_nat_Z, Pos2Z.inj_mul, mult_IZR.
  field. split; apply not_0_IZR; discriminate.
Qed.

Definition valid_numbers (n : numbers) : bool :=
  ((0 <? n_low n) && (2 * n_low n <=? SCALE) && (0 <=? n_flip n) && (2 * n_flip n <=? SCALE))%Z
  && forallb (fun t => Nat.eqb (length t) (n_classes n)
                       && forallb (fun T => (n_low n <=? T) && (T <=? SCALE - n_low n))%Z t) (n_tables n).

Lemma valid_numbers_sound n class_of :
  valid_numbers n = true -> (forall alpha x, (class_of alpha x < n_classes n)%nat) -> valid (metric_of n class_of).
Proof.
  unfold valid_numbers. intros H HC. rewrite !andb_true_iff, forallb_forall in H.
  destruct H as [[[[H1 H2] H3] H4] H5]. apply Z.ltb_lt in H1. apply Z.leb_le in H2, H3, H4.
  constructor; simpl; try (split; assumption); [|assumption].
  intros t It. specialize (H5 t It). rewrite andb_true_iff, forallb_forall in H5. destruct H5 as [L F].
  apply Nat.eqb_eq in L. split; [assumption|]. apply Forall_forall. intros T IT. specialize (F T IT).
  rewrite andb_true_iff in F. destruct F as [F1 F2]. apply Z.leb_le in F1, F2. now split.
Qed.

(** The most bits that differ in law between two classes: 1 or 2. *)
Definition changed_bits (n : numbers) : nat :=
  list_max (flat_map (fun c => map (fun c' => list_sum (map (moved c c') (n_tables n))) (seq 0 (n_classes n)))
                     (seq 0 (n_classes n))).

Lemma changed_bits_sound n class_of c c' :
  (c < n_classes n)%nat -> (c' < n_classes n)%nat -> (changed (metric_of n class_of) c c' <= changed_bits n)%nat.
Proof.
  intros H H'. unfold changed_bits, changed. simpl.
  assert (A : forall l x, In x l -> (x <= list_max l)%nat).
  { intros l x I. pose proof (proj1 (list_max_le l (list_max l)) (Nat.le_refl _)) as F.
    rewrite Forall_forall in F. now apply F. }
  apply A, in_flat_map. exists c. split; [apply in_seq; lia|].
  apply in_map_iff. exists c'. split; [reflexivity | apply in_seq; lia].
Qed.

Definition positive_bits (n : numbers) : positive := Pos.of_nat (Nat.max 1 (changed_bits n)).
Definition positive_width (n : numbers) : positive := Pos.of_nat (Nat.max 1 (length (n_tables n))).

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

Definition check_odds (t : list Z) (qs : list Q) : bool :=
  Nat.eqb (length qs) (length t) &&
  forallb (fun Tq => let rarer := Z.min (fst Tq) (SCALE - fst Tq) in le_exp (SCALE - rarer) rarer (snd Tq)) (combine t qs).

(** Every pair of cells costs no more than the price of one on the left and that of the other on the right. *)
Definition check_prices (t : list Z) (ps : list (Q * Q)) : bool :=
  let known := combine t (map (fun p => (exp_below (fst p), exp_below (snd p))) ps) in
  Nat.eqb (length ps) (length t) &&
  forallb (fun p => (0 <=? Qnum (fst p)) && (0 <=? Qnum (snd p)))%Z ps &&
  forallb (fun T => (0 <=? T) && (T <=? SCALE))%Z t &&
  forallb (fun u => forallb (fun v =>
    let factor := (fst (snd u) * snd (snd v))%Z in
    (fst u * (ONE * ONE) <=? factor * fst v) && ((SCALE - fst u) * (ONE * ONE) <=? factor * (SCALE - fst v)))%Z known) known.

Definition check_lifetime (n : numbers) (F : Q) (h : hints) : bool :=
  match n_tables n, odds h, prices h with
  | [t], _ :: _, _ => check_odds t (odds h) && Qle_bool (sum_of (odds h)) F
  | [t], [], _ :: _ => check_prices t (prices h) && Qle_bool (sum_of (map (fun p => fst p + snd p)%Q (prices h))) F
  | ts, _, _ => forallb has_special ts && le_exp (SCALE - n_low n) (n_low n) (exponent h)
             && Qle_bool (inject_Z (Z.of_nat (Nat.min (changed_bits n * n_classes n) (2 * length ts))) * exponent h) F
  end.

Definition nat_times (k : nat) (q : Q) : Q := (inject_Z (Z.of_nat k) * q)%Q.

Definition check_round (n : numbers) (q : Q) : bool :=
  let lo := n_low n in let G := n_flip n in
  valid_numbers n
  && le_exp ((SCALE - lo) * (SCALE - G) + lo * G) (lo * (SCALE - G) + (SCALE - lo) * G) (part q (positive_bits n)).

Definition check (n : numbers) (f : figures) (h : hints) : bool :=
  let lo := n_low n in let G := n_flip n in
  check_round n (round f)
  && le_exp (SCALE - lo) lo (part (constant f) (positive_bits n))
  && check_lifetime n (lifetime f) h
  && match change_per_round f with
     | None => true
     | Some F => le_exp (SCALE - G) G (part F (positive_width n))
     end
  && match any_history f with
     | None => true
     | Some F =>
         le_exp SCALE lo (memo h) && le_exp (SCALE - G) G (lambda h)
         && (Qle_bool (nat_times (length (n_tables n)) (nat_times (Nat.min (n_classes n) (rounds f)) (memo h)
                                                        + nat_times (rounds f / 2) (lambda h))) F
             || Qle_bool (nat_times (length (n_tables n)) (nat_times (rounds f) (lambda h))) F)
     end.

(** ** Soundness *)

Lemma Q2R_nat_times k q : Q2R (nat_times k q) = INR k * Q2R q.
Proof.
  unfold nat_times. rewrite Q2R_mult. f_equal. unfold Q2R, inject_Z. simpl. rewrite INR_IZR_INZ. field.
Qed.

Lemma Qle_bool_R a b : Qle_bool a b = true -> Q2R a <= Q2R b.
Proof. intros H. apply Qle_Rle, Qle_bool_iff, H. Qed.

Lemma within_of_integers lo G n L :
  ((0 < lo)%Z) ->
  IZR ((SCALE - lo) * (SCALE - G) ^ Z.of_nat n + lo * G ^ Z.of_nat n)
  <= exp L * IZR (lo * (SCALE - G) ^ Z.of_nat n + (SCALE - lo) * G ^ Z.of_nat n) ->
  within lo G n L.
Proof.
  intros _ H. unfold within, share. pose proof IZR_SCALE_positive as HS.
  rewrite !plus_IZR, !mult_IZR, <- !pow_IZR, !minus_IZR in H.
  assert (P : 0 < IZR SCALE ^ n) by now apply pow_lt.
  replace (1 - IZR G / IZR SCALE) with ((IZR SCALE - IZR G) / IZR SCALE) by (field; lra).
  unfold Rdiv. rewrite !Rpow_mult_distr, !pow_inv by lra.
  apply (Rmult_le_reg_r (IZR SCALE * IZR SCALE ^ n)); [now apply Rmult_lt_0_compat|].
  set (s := IZR SCALE) in *. set (A := (s - IZR G) ^ n) in *. set (B := IZR G ^ n) in *. set (Sn := s ^ n) in *.
  replace (((1 - IZR lo * / s) * (A * / Sn) + IZR lo * / s * (B * / Sn)) * (s * Sn))
    with ((s - IZR lo) * A + IZR lo * B) by (field; lra).
  replace (exp L * (IZR lo * / s * (A * / Sn) + (1 - IZR lo * / s) * (B * / Sn)) * (s * Sn))
    with (exp L * (IZR lo * A + (s - IZR lo) * B)) by (field; lra).
  exact H.
Qed.

Lemma coin_of_integers lo L : IZR (SCALE - lo) <= exp L * IZR lo -> coin_for L lo.
Proof. unfold coin_for. rewrite minus_IZR. lra. Qed.

Lemma total_odds (t : list Z) (qs : list Q) :
  length qs = length t -> total (seq 0 (length t)) (fun c => Q2R (nth c qs 0%Q)) = Q2R (sum_of qs).
Proof.
  intros <-. unfold sum_of. induction qs as [|q qs IH]; simpl.
  - unfold Q2R. simpl. lra.
  - rewrite Q2R_plus, <- IH, <- seq_shift, total_map. reflexivity.
Qed.

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
  assert (QR : forall q, (0 <= Qnum q)%Z -> 0 <= Q2R q).
  { intros q Hq. unfold Q2R. apply Rmult_le_pos; [now apply IZR_le | left; apply Rinv_0_lt_compat, IZR_lt; reflexivity]. }
  split; [assumption|]. split; [intros c; destruct (NN c); split; now apply QR|].
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
  split; (apply exp_below_pair; auto using exp_below_nonneg; lia).
Qed.

Lemma total_prices (t : list Z) (ps : list (Q * Q)) :
  length ps = length t ->
  total (seq 0 (length t)) (fun c => Q2R (fst (nth c ps (0, 0)%Q)) + Q2R (snd (nth c ps (0, 0)%Q)))
  = Q2R (sum_of (map (fun p => fst p + snd p)%Q ps)).
Proof.
  intros <-. unfold sum_of. induction ps as [|p ps IH]; simpl.
  - unfold Q2R. simpl. lra.
  - rewrite !Q2R_plus, <- IH, <- seq_shift, total_map. reflexivity.
Qed.

Lemma odds_below t c q : 0 < IZR (rarer t c) -> IZR (SCALE - rarer t c) <= exp q * IZR (rarer t c) -> odds_of t c <= q.
Proof.
  intros H L. unfold odds_of. assert (S : 0 < IZR (SCALE - rarer t c)).
  { pose proof IZR_SCALE_positive as S. apply lt_IZR in H. apply IZR_lt. apply lt_IZR in S. unfold rarer in *. lia. }
  apply ln_le' in L; [|assumption]. rewrite ln_mult, ln_exp in L; [lra | apply exp_pos | assumption].
Qed.

Lemma check_lifetime_sound n F h class_of :
  valid (metric_of n class_of) -> check_lifetime n F h = true ->
  forall cs cs', same_pattern cs cs' ->
    (forall c, In c cs -> (c < n_classes n)%nat) -> (forall c, In c cs' -> (c < n_classes n)%nat) ->
    loss (Q2R F) (answers_of_classes (metric_of n class_of) cs) (answers_of_classes (metric_of n class_of) cs').
Proof.
  intros V HC cs cs' SP B B'.
  assert (hist : forallb has_special (n_tables n) && le_exp (SCALE - n_low n) (n_low n) (exponent h)
             && Qle_bool (inject_Z (Z.of_nat (Nat.min (changed_bits n * n_classes n) (2 * length (n_tables n)))) * exponent h) F
             = true -> loss (Q2R F) (answers_of_classes (metric_of n class_of) cs) (answers_of_classes (metric_of n class_of) cs')).
  { intros H. rewrite !andb_true_iff, forallb_forall in H. destruct H as [[H1 H2] H3].
    pose proof (le_exp_nonneg _ _ _ H2) as e0. apply le_exp_sound in H2. apply Qle_bool_R in H3.
    fold (nat_times (Nat.min (changed_bits n * n_classes n) (2 * length (n_tables n))) (exponent h)) in H3.
    rewrite Q2R_nat_times in H3.
    eapply loss_weaken; [|apply loss_by_width_of_histogram with (h := Q2R (exponent h)) (two := changed_bits n); auto].
    - eapply Rle_trans; [|exact H3]. apply Rmult_le_compat_r; [assumption|]. apply le_INR. simpl tables.
      apply Nat.min_le_compat_r, Nat.mul_le_mono_l.
      unfold width. rewrite <- (seq_length (n_classes n) 0). apply NoDup_incl_length; [apply NoDup_nodup|].
      intros u Hu. apply nodup_In in Hu. apply in_seq. specialize (B u Hu). lia.
    - now apply coin_of_integers.
    - intros t It. apply has_special_sound. now apply H1.
    - intros c c' Hc Hc'. now apply changed_bits_sound. }
  unfold check_lifetime in HC. destruct (n_tables n) as [|t [|t' ts]] eqn:ET.
  - apply hist. exact HC.
  - assert (Lt : length t = n_classes n).
    { apply (valid_m_tables _ V t). simpl. rewrite ET. simpl. auto. }
    destruct (odds h) as [|q0 qs0] eqn:EO.
    { destruct (prices h) as [|p0 ps0] eqn:EP; [apply hist; exact HC|]. rewrite <- EP in HC.
      apply andb_prop in HC as [H1 H2]. apply Qle_bool_R in H2. apply check_prices_sound in H1 as [HL [HN HB]].
      eapply loss_weaken; [exact H2|]. rewrite <- (total_prices t) by assumption. rewrite Lt.
      rewrite <- (Rplus_0_l (total _ _)), <- (Rmult_0_r (INR (width cs))).
      apply loss_by_prices with (table := t) (alpha := fun c => Q2R (fst (nth c (prices h) (0, 0)%Q)))
                                (beta := fun c => Q2R (snd (nth c (prices h) (0, 0)%Q))); auto.
      - lra.
      - intros c. apply HN.
      - intros c. apply HN.
      - intros u v Hu Hv. rewrite Rplus_0_l. apply HB; simpl in *; lia. }
    rewrite <- EO in HC.
    apply andb_prop in HC as [H1 H2]. apply Qle_bool_R in H2.
    unfold check_odds in H1. apply andb_prop in H1 as [HL H1]. apply Nat.eqb_eq in HL. rewrite forallb_forall in H1.
    assert (HT : tables (metric_of n class_of) = [t]) by (simpl; rewrite ET; reflexivity).
    eapply loss_weaken; [|now apply (lifetime_loss_of_mean _ t V HT)].
    eapply Rle_trans; [|exact H2]. rewrite <- (total_odds t) by assumption. simpl classes. rewrite Lt.
    apply total_le. intros c Hc. apply in_seq in Hc.
    destruct (rarer_bounds _ t V HT c) as [R1 R2]; [simpl; lia|].
    specialize (H1 (nth c t 0%Z, nth c (odds h) 0%Q)). apply odds_below; [assumption|]. apply le_exp_sound, H1.
    rewrite <- combine_nth by (symmetry; assumption). apply nth_In. rewrite combine_length. lia.
  - apply hist. exact HC.
Qed.

Lemma few_bits n class_of c c' :
  (c < n_classes n)%nat -> (c' < n_classes n)%nat ->
  (changed (metric_of n class_of) c c' <= Pos.to_nat (positive_bits n))%nat.
Proof.
  intros B B'. eapply Nat.le_trans; [now apply changed_bits_sound|]. unfold positive_bits. rewrite Nat2Pos.id; lia.
Qed.

Lemma check_round_sound n q class_of :
  check_round n q = true -> (forall alpha x, (class_of alpha x < n_classes n)%nat) ->
  valid (metric_of n class_of) /\
  forall x y, loss (Q2R q) (answers (metric_of n class_of) [x]) (answers (metric_of n class_of) [y]).
Proof.
  unfold check_round. cbv zeta. rewrite andb_true_iff. intros [H1 H2] Hc.
  pose proof (valid_numbers_sound n class_of H1 Hc) as V. split; [assumption|]. intros x y.
  rewrite <- (part_times q (positive_bits n)).
  apply (loss_of_constant_device _ (Pos.to_nat (positive_bits n)) _ 1); auto using few_bits.
  - now apply le_exp_nonneg in H2.
  - apply within_of_integers; [apply (valid_m_low _ V)|]. apply le_exp_sound in H2.
    simpl Z.of_nat. rewrite !Z.pow_1_r. exact H2.
Qed.

Theorem check_sound n f h :
  check n f h = true -> forall class_of, (forall alpha x, (class_of alpha x < n_classes n)%nat) ->
  claims (metric_of n class_of) f.
Proof.
  intros HC class_of Hc. unfold check in HC. cbv zeta in HC. rewrite !andb_true_iff in HC.
  destruct HC as [[[[H2 H3] H4] H5] H6]. destruct (check_round_sound _ _ class_of H2 Hc) as [V HR].
  set (m := metric_of n class_of) in *.
  constructor.
  - exact HR.
  - intros k x y. rewrite <- (part_times (constant f) (positive_bits n)).
    apply (loss_of_constant_device m (Pos.to_nat (positive_bits n)) _ k); auto.
    + now apply le_exp_nonneg in H3.
    + apply formula_of_all_rounds; auto using (valid_m_low m V), (valid_m_flip m V).
      * now apply le_exp_nonneg in H3.
      * apply coin_of_integers. now apply le_exp_sound.
    + intros c c' Bc Bc'. now apply few_bits.
  - intros. now apply check_lifetime_sound with h.
  - intros F EF delta xs ys Len HD. rewrite EF in H5.
    rewrite <- (part_times F (positive_width n)), <- Rmult_assoc.
    pose proof (le_exp_nonneg _ _ _ H5) as e0. apply le_exp_sound in H5.
    eapply loss_weaken; [|apply loss_of_moved_change with (L := Q2R (part F (positive_width n))) (delta := delta); eauto].
    apply Rmult_le_compat_r; [assumption|]. apply Rmult_le_compat_l; [apply pos_INR|]. apply le_INR.
    unfold positive_width. rewrite Nat2Pos.id by lia. change (tables m) with (n_tables n). lia.
  - intros F EF xs ys Lx Ly. rewrite EF in H6. rewrite !andb_true_iff in H6. destruct H6 as [[A B] C].
    pose proof (le_exp_nonneg _ _ _ A) as a0. pose proof (le_exp_nonneg _ _ _ B) as b0.
    apply le_exp_sound in A, B.
    eapply loss_weaken; [|apply loss_of_any_histories with (a := Q2R (memo h)) (L := Q2R (lambda h)) (n := rounds f); auto].
    simpl tables. simpl classes.
    set (p := INR (Nat.min (n_classes n) (rounds f)) * Q2R (memo h) + INR (rounds f / 2) * Q2R (lambda h)).
    set (q := INR (rounds f) * Q2R (lambda h)).
    pose proof (Rmin_l p q). pose proof (Rmin_r p q). pose proof (pos_INR (length (n_tables n))) as d0.
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

(** [enough] with l = a/D and the limit in whole numbers, all denominators multiplied out: k is the quotient of what can
    be heaped on zeros by the range, f the rest, and each side of the check is a side of [enough] times one factor. *)
Lemma check_enough_sound a D top limit t r F :
  (0 < a)%Z -> (2 * a <= D)%Z -> (0 < top)%Z -> (0 <= limit)%Z ->
  check_enough a D top limit t r F = true -> enough (IZR a / IZR D) (IZR limit / IZR top) t r (Q2R F).
Proof.
  intros Ha HD HT HL H. unfold check_enough in H. cbv zeta in H. apply le_exp_sound in H.
  set (spread := Z.min limit (Z.of_nat r * top)) in *. set (heaped := Z.min limit (Z.of_nat (t - r) * top)) in *.
  assert (Ra : 0 < IZR a) by now apply IZR_lt.
  assert (RD : 2 * IZR a <= IZR D) by (rewrite <- mult_IZR; now apply IZR_le).
  assert (RT : 0 < IZR top) by now apply IZR_lt.
  pose proof (Z.div_mod heaped top) as DM. pose proof (Z.mod_pos_bound heaped top) as MB.
  assert (H0 : (0 <= heaped)%Z) by (unfold heaped; nia).
  assert (K0 : (0 <= heaped / top)%Z) by (apply Z.div_pos; lia).
  set (k := Z.to_nat (heaped / top)). set (f := IZR (heaped mod top) / IZR top).
  assert (Ek : (heaped / top)%Z = Z.of_nat k) by (unfold k; now rewrite Z2Nat.id).
  exists k, f. split; [|split].
  - unfold f. split.
    + apply Rmult_le_pos; [apply IZR_le; lia | left; now apply Rinv_0_lt_compat].
    + apply (Rmult_le_reg_r (IZR top)); [assumption|]. unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l, Rmult_1_l, Rmult_1_r by lra. apply IZR_le. lia.
  - apply Rle_trans with (IZR heaped / IZR top).
    + apply (Rmult_le_reg_r (IZR top)); [assumption|].
      replace (IZR heaped / IZR top * IZR top) with (IZR heaped) by (field; lra).
      unfold heaped. destruct (Z.min_spec limit (Z.of_nat (t - r) * top)) as [[C ->]|[C ->]].
      * apply Rle_trans with (IZR limit / IZR top * IZR top); [apply Rmult_le_compat_r; [lra | apply Rmin_l]|].
        right. field. lra.
      * apply Rle_trans with (INR (t - r) * IZR top); [apply Rmult_le_compat_r; [lra | apply Rmin_r]|].
        rewrite mult_IZR, <- INR_IZR_INZ. lra.
    + unfold f. rewrite INR_IZR_INZ, <- Ek. rewrite DM at 1 by lia. rewrite plus_IZR, mult_IZR. right. field. lra.
  - assert (Dp : 0 < IZR D) by lra. assert (Da : 0 < IZR D - IZR a) by lra.
    replace (1 - (1 - 2 * (IZR a / IZR D)) / (1 - IZR a / IZR D)) with (IZR a / (IZR D - IZR a)) by (field; lra).
    replace (1 - (1 - 2 * (IZR a / IZR D)) / (1 - IZR a / IZR D) * f)
      with (((IZR D - IZR a) * IZR top - (IZR D - 2 * IZR a) * IZR (heaped mod top)) / ((IZR D - IZR a) * IZR top))
      by (unfold f; field; lra).
    replace ((1 - 2 * (IZR a / IZR D)) / (IZR a / IZR D)) with ((IZR D - 2 * IZR a) / IZR a) by (field; lra).
    rewrite Ek in H. rewrite !mult_IZR, <- !pow_IZR, !minus_IZR, !plus_IZR, !mult_IZR, !minus_IZR, !mult_IZR in H.
    rewrite <- INR_IZR_INZ in H.
    set (W := (IZR D - IZR a) * IZR top - (IZR D - 2 * IZR a) * IZR (heaped mod top)) in *.
    assert (W0 : 0 < W).
    { unfold W. assert (IZR (heaped mod top) <= IZR top) by (apply IZR_le; lia).
      assert (0 <= IZR (heaped mod top)) by (apply IZR_le; lia). nra. }
    replace ((IZR a / (IZR D - IZR a)) ^ k) with (IZR a ^ k / (IZR D - IZR a) ^ k)
      by (unfold Rdiv; now rewrite Rpow_mult_distr, pow_inv).
    assert (P1 : 0 < (IZR D - IZR a) ^ k) by now apply pow_lt.
    destruct r as [|r'].
    + simpl pow at 1. simpl in H.
      apply (Rmult_le_reg_r ((IZR D - IZR a) ^ k * ((IZR D - IZR a) * IZR top))).
      { apply Rmult_lt_0_compat; [assumption|]. now apply Rmult_lt_0_compat. }
      eapply Rle_trans; [|eapply Rle_trans; [exact H|]]; [lra|]. right. field. lra.
    + set (r := S r') in *. assert (R1 : 0 < INR r) by (apply lt_0_INR; unfold r; lia).
      assert (SP : Rmin (IZR limit / IZR top) (INR r) = IZR spread / IZR top).
      { unfold spread. destruct (Z.min_spec limit (Z.of_nat r * top)) as [[C ->]|[C ->]].
        - apply Rmin_left. apply (Rmult_le_reg_r (IZR top)); [assumption|].
          replace (IZR limit / IZR top * IZR top) with (IZR limit) by (field; lra).
          rewrite INR_IZR_INZ, <- mult_IZR. apply IZR_le. lia.
        - rewrite Rmin_right.
          + rewrite mult_IZR, <- INR_IZR_INZ. field. lra.
          + apply (Rmult_le_reg_r (IZR top)); [assumption|].
            replace (IZR limit / IZR top * IZR top) with (IZR limit) by (field; lra).
            rewrite INR_IZR_INZ, <- mult_IZR. apply IZR_le. lia. }
      rewrite SP.
      replace (1 + (IZR D - 2 * IZR a) / IZR a * (IZR spread / IZR top) / INR r)
        with ((IZR a * IZR top * INR r + (IZR D - 2 * IZR a) * IZR spread) * / (IZR a * IZR top * INR r))
        by (field; lra).
      set (N := IZR a * IZR top * INR r + (IZR D - 2 * IZR a) * IZR spread) in *.
      assert (M0 : 0 < IZR a * IZR top * INR r) by (repeat apply Rmult_lt_0_compat; assumption).
      set (M := IZR a * IZR top * INR r) in *.
      rewrite Rpow_mult_distr, pow_inv.
      assert (M1 : 0 < M ^ r) by now apply pow_lt.
      apply (Rmult_le_reg_r (M ^ r * ((IZR D - IZR a) ^ k * ((IZR D - IZR a) * IZR top)))).
      { apply Rmult_lt_0_compat; [assumption|]. apply Rmult_lt_0_compat; [assumption|]. now apply Rmult_lt_0_compat. }
      eapply Rle_trans; [|eapply Rle_trans; [exact H|]].
      * right. field. lra.
      * right. field. lra.
Qed.

Fixpoint increasing_b (points : list Z) : bool :=
  match points with
  | l :: ((r :: _) as rest) => (l <? r)%Z && increasing_b rest
  | _ => true
  end.

Definition valid_counter_b (c : counter) : bool :=
  ((hd 1 (points c) =? 0) && increasing_b (points c) && (1 <? length (points c))%nat
   && (0 <? counter_low c) && (2 * counter_low c <=? SCALE) && (0 <=? counter_flip c) && (2 * counter_flip c <=? SCALE))%Z.

(** The chance of a 1 at value 0, as a fraction: as it is sent, and as it is remembered. *)
Definition seen_parts (c : counter) : Z * Z :=
  (counter_low c * (SCALE - counter_flip c) + (SCALE - counter_low c) * counter_flip c, SCALE * SCALE)%Z.
Definition kept_parts (c : counter) : Z * Z := (counter_low c, SCALE).

Definition check_alike (low_of : counter -> Z * Z) (c : counter) (t : nat) (limit : Z) (F : Q) : bool :=
  forallb (fun r => check_enough (fst (low_of c)) (snd (low_of c)) (top c) limit t r F) (seq 0 (S t)).

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

(** A fraction of whole numbers that is the chance in question. *)
Definition parts_of (l : counter -> R) (low_of : counter -> Z * Z) (c : counter) : Prop :=
  l c = IZR (fst (low_of c)) / IZR (snd (low_of c)) /\ (0 < fst (low_of c))%Z /\ (2 * fst (low_of c) <= snd (low_of c))%Z.

Lemma parts_are_right c : valid_counter c -> parts_of low_seen seen_parts c /\ parts_of low_kept kept_parts c.
Proof.
  intros [_ [[L1 L2] [G1 G2]]]. pose proof SCALE_positive as S0. pose proof IZR_SCALE_positive as S1.
  unfold parts_of, low_seen, low_kept, seen_parts, kept_parts, share. cbn [fst snd].
  repeat split; auto; try nia. rewrite plus_IZR, !mult_IZR, !minus_IZR. field. lra.
Qed.

Lemma check_alike_sound l low_of c t limit F :
  valid_counter c -> (0 < top c)%Z -> (0 <= limit)%Z -> 0 < l c <= 1 / 2 -> parts_of l low_of c ->
  check_alike low_of c t limit F = true -> joint_bound l limit (repeat c t) (Q2R F).
Proof.
  intros V T L Hl [E [P1 P2]] H. unfold check_alike in H. rewrite forallb_forall in H.
  apply joint_bound_of_alike; auto. intros r Hr. rewrite E. apply check_enough_sound; auto. apply H, in_seq. lia.
Qed.

(** ** Groups: unlike counters, at prices that nobody has to trust *)

(** Per counter its gain and the point of the tangent, as parts of its range; prices are per unit of value. *)
Record joint_hints := { of_ones : Q; of_zeros : Q; gains : list (Q * Q) }.

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

Definition check_unlike (low_of : counter -> Z * Z) (cs : list counter) (limit : Z) (h : joint_hints) (F : Q) : bool :=
  Nat.eqb (length (gains h)) (length cs) && Qle_bool 0 (of_ones h) && Qle_bool 0 (of_zeros h) && (0 <? limit)%Z
  && forallb (fun cg => check_gain (fst (low_of (fst cg))) (snd (low_of (fst cg))) (top (fst cg)) limit
                                   (of_ones h) (of_zeros h) (fst (snd cg)) (snd (snd cg))) (combine cs (gains h))
  && Qle_bool ((of_ones h + of_zeros h) * inject_Z limit + sum_of (map fst (gains h))) F.

Lemma Q2R_inject z : Q2R (inject_Z z) = IZR z.
Proof. unfold Q2R, inject_Z. simpl. field. Qed.

Lemma Q2R_red q : Q2R (Qred q) = Q2R q.
Proof. apply Qeq_eqR, Qred_correct. Qed.

Lemma Q2R_parts q : Q2R q * IZR (Zpos (Qden q)) = IZR (Qnum q).
Proof. unfold Q2R. field. apply not_0_IZR. discriminate. Qed.

Lemma check_gain_sound a D top limit lambda mu gain x0 :
  (0 < a)%Z -> (2 * a <= D)%Z -> check_gain a D top limit lambda mu gain x0 = true ->
  let l := IZR a / IZR D in let m := Rmin 1 (IZR limit / IZR top) in
  (forall x, 0 <= x <= m -> 1 + (1 - 2 * l) / l * x <= exp (Q2R gain + Q2R lambda * (IZR top * x))) /\
  (forall y, 0 <= y <= m -> 1 <= exp (Q2R gain + Q2R mu * (IZR top * y)) * (1 - (1 - 2 * l) / (1 - l) * y)).
Proof.
  intros Ha HD H l m. unfold check_gain in H. cbv zeta in H. rewrite !andb_true_iff in H.
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
  assert (g0 : 0 <= Q2R gain).
  { unfold Q2R. apply Rmult_le_pos; [now apply IZR_le | left; apply Rinv_0_lt_compat, pos]. }
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

Lemma check_unlike_sound l low_of cs limit h F :
  (forall c, In c cs -> valid_counter c /\ 0 < l c <= 1 / 2 /\ parts_of l low_of c) ->
  check_unlike low_of cs limit h F = true -> joint_bound l limit cs (Q2R F).
Proof.
  intros HC H. unfold check_unlike in H. rewrite !andb_true_iff, forallb_forall in H.
  destruct H as [[[[[HL H1] H2] H3] HG] HF]. apply Nat.eqb_eq in HL. apply Qle_bool_R in H1, H2, HF. apply Z.ltb_lt in H3.
  unfold Q2R at 1 in H1. unfold Q2R at 1 in H2. simpl in H1, H2. rewrite Rmult_0_l in H1, H2.
  set (priced := map (fun cg => (fst cg, Q2R (fst (snd cg)))) (combine cs (gains h))).
  assert (Ef : map fst priced = cs /\ sum (map snd priced) = Q2R (sum_of (map fst (gains h)))).
  { unfold priced. rewrite !map_map. simpl. clear - HL. revert HL. generalize (gains h).
    induction cs as [|c cs IH]; intros [|g gs] HL; try discriminate; [simpl; unfold Q2R; simpl; split; [reflexivity | lra]|].
    simpl in *. destruct (IH gs ltac:(lia)) as [-> E]. rewrite Q2R_plus, <- E. auto. }
  destruct Ef as [Ef Es]. rewrite <- Ef.
  assert (In_priced : forall c g, In (c, g) priced -> exists q, In (c, q) (combine cs (gains h)) /\ g = Q2R (fst q)).
  { intros c g I. apply in_map_iff in I as [[c' q] [E I]]. injection E as <- <-. eauto. }
  apply (joint_bound_of_unlike l limit priced (Q2R (of_ones h)) (Q2R (of_zeros h))); auto.
  - intros [c g] I. apply HC. rewrite <- Ef. now apply in_map.
  - intros c g I. destruct (In_priced c g I) as [q [Iq ->]].
    destruct (HC c (in_combine_l _ _ _ _ Iq)) as [_ [Hl [E [P1 P2]]]]. split; [assumption|]. cbv zeta. rewrite E.
    apply (check_gain_sound (fst (low_of c)) (snd (low_of c)) (top c) limit _ _ _ (snd q)); auto. exact (HG _ Iq).
  - rewrite Es. rewrite Q2R_plus, Q2R_mult, Q2R_plus, Q2R_inject in HF. exact HF.
Qed.

Definition same_counter (c d : counter) : bool :=
  (if list_eq_dec Z.eq_dec (points c) (points d) then true else false)
  && (counter_low c =? counter_low d)%Z && (counter_flip c =? counter_flip d)%Z.

Lemma same_counter_sound c d : same_counter c d = true -> c = d.
Proof.
  unfold same_counter. rewrite !andb_true_iff. intros [[A B] C]. apply Z.eqb_eq in B, C.
  destruct (list_eq_dec _ _ _) as [E|]; [|discriminate]. destruct c, d. simpl in *. congruence.
Qed.

(** A group, one way or the other: alike if there are no gains. *)
Definition check_joint (low_of : counter -> Z * Z) (cs : list counter) (limit : Z) (h : joint_hints) (F : Q) : bool :=
  match gains h, cs with
  | [], c :: _ => forallb (same_counter c) cs && check_alike low_of c (length cs) limit F
  | _, _ => check_unlike low_of cs limit h F
  end.

Definition check_group (cs : list counter) (limit : Z) (one all : joint_hints) (f_one f_all : Q) : bool :=
  forallb valid_counter_b cs && (0 <=? limit)%Z
  && check_joint seen_parts cs limit one f_one && check_joint kept_parts cs limit all f_all.

Lemma check_joint_sound l low_of cs limit h F :
  (forall c, In c cs -> valid_counter c /\ (0 < top c)%Z /\ 0 < l c <= 1 / 2 /\ parts_of l low_of c) -> (0 <= limit)%Z ->
  check_joint low_of cs limit h F = true -> joint_bound l limit cs (Q2R F).
Proof.
  intros HC HL H. unfold check_joint in H.
  assert (U : check_unlike low_of cs limit h F = true -> joint_bound l limit cs (Q2R F)).
  { apply check_unlike_sound. intros c Ic. destruct (HC c Ic) as [A [_ [B C]]]. auto. }
  destruct (gains h) as [|g gs]; [|auto]. destruct cs as [|c cs]; [auto|].
  apply andb_prop in H as [S H]. rewrite forallb_forall in S.
  replace (c :: cs) with (repeat c (length (c :: cs))).
  - destruct (HC c (or_introl eq_refl)) as [A [B [C D]]]. now apply check_alike_sound with low_of.
  - symmetry. apply Forall_eq_repeat. apply Forall_forall. intros d Id. apply same_counter_sound, S, Id.
Qed.

Theorem check_group_sound cs limit one all f_one f_all :
  check_group cs limit one all f_one f_all = true -> group_claims cs limit f_one f_all.
Proof.
  unfold check_group. rewrite !andb_true_iff, forallb_forall. intros [[[HV HL] H1] HA]. apply Z.leb_le in HL.
  assert (V : forall c, In c cs -> valid_counter c /\ (0 < top c)%Z) by (intros; now apply valid_counter_sound, HV).
  apply joint_limit_of_group; [intros; now apply V | |].
  - apply check_joint_sound with (low_of := seen_parts) (h := one); auto. intros c Ic. destruct (V c Ic) as [Vc T].
    repeat split; try apply Vc; try apply (lows_bounds c Vc); try apply (parts_are_right c Vc). assumption.
  - apply check_joint_sound with (low_of := kept_parts) (h := all); auto. intros c Ic. destruct (V c Ic) as [Vc T].
    repeat split; try apply Vc; try apply (lows_bounds c Vc); try apply (parts_are_right c Vc). assumption.
Qed.

(** ** Windows *)

Inductive asked_block :=
  | Alone (cohorts : list numbers) (cost : Q)                       (* a metric, with the integers of every cohort *)
  | Alike (c : counter) (t : nat) (limit : Z) (costs : list Q).     (* counters alike; costs by how many are asked *)

Definition matches (a : asked_block) (b : block) : Prop :=
  match a with
  | Alone cohorts _ => exists n class_of, In n cohorts /\ (forall alpha x, (class_of alpha x < n_classes n)%nat) /\
                                          b = alone (metric_of n class_of)
  | Alike c t limit _ => b = alike_block c t limit
  end.

Definition costs_of (a : asked_block) : list Q := match a with Alone _ q => [0%Q; q] | Alike _ _ _ costs => costs end.

Definition check_block (a : asked_block) : bool :=
  match a with
  | Alone cohorts q => forallb (fun n => check_round n q) cohorts
  | Alike c t limit costs =>
      valid_counter_b c && (0 <=? limit)%Z &&
      forallb (fun s => check_alike seen_parts c s limit (nth s costs 0%Q)) (seq 0 (S t))
  end.

Definition check_window (blocks : list asked_block) (k : nat) (L : Q) : bool :=
  forallb check_block blocks && Qle_bool (nth k (best (map costs_of blocks) k) 0%Q) L.

Lemma check_block_sound a b : check_block a = true -> matches a b -> block_costs b (costs_of a).
Proof.
  destruct a as [cohorts q | c t limit costs]; cbn [check_block costs_of matches]; intros H M.
  - rewrite forallb_forall in H. destruct M as [n [class_of [I [Hc ->]]]]. apply costs_of_alone.
    now apply check_round_sound; [apply H|].
  - rewrite !andb_true_iff, forallb_forall in H. destruct H as [[HV HL] H]. apply Z.leb_le in HL. subst b.
    destruct (valid_counter_sound c HV) as [V T]. apply costs_of_alike. intros s Hs xs ys Wx Wy.
    apply (round_of_group limit (repeat c s)); auto.
    + intros d Id. apply repeat_spec in Id as ->. assumption.
    + apply check_alike_sound with seen_parts; auto; [apply (lows_bounds c V) | apply (parts_are_right c V) | apply H, in_seq; lia].
Qed.

Theorem check_window_sound blocks k L :
  check_window blocks k L = true -> forall bs, Forall2 matches blocks bs -> window_claim bs k L.
Proof.
  unfold check_window. rewrite andb_true_iff, forallb_forall. intros [HB HL] bs HM. apply Qle_bool_iff in HL.
  set (priced := map (fun ab => (snd ab, costs_of (fst ab))) (combine blocks bs)).
  assert (E : map fst priced = bs /\ map snd priced = map costs_of blocks).
  { unfold priced. rewrite !map_map. simpl. clear - HM. induction HM; simpl; [auto|]. destruct IHHM as [-> ->]. auto. }
  destruct E as [E1 E2]. rewrite <- E1. apply loss_of_sampled_plan; [|now rewrite E2].
  unfold priced. clear - HB HM. induction HM as [|a b blocks bs M HM IH]; simpl; constructor.
  - simpl. apply check_block_sound; [apply HB; simpl; auto | assumption].
  - apply IH. intros; apply HB; simpl; auto.
Qed.
