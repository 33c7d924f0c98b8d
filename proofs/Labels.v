(** * One label: subset selection, and the split of time *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith Permutation.
From Reticent Require Import Definitions Draws Bits Device.
Import ListNotations.
Open Scope R_scope.

(** ** Sums over words, in stretches *)

Lemma sum_below_add n k f : sum_below (n + k) f = sum_below n f + sum_below k (fun u => f (Z.of_nat n + u)%Z).
Proof.
  induction k as [|k IH]; [simpl; rewrite Nat.add_0_r; lra|].
  rewrite Nat.add_succ_r. simpl. rewrite IH, Nat2Z.inj_add. lra.
Qed.

(** A stretch of [a] words for each element of a list. *)
Lemma sum_in_stretches (a : nat) (l : list nat) F :
  (0 < a)%nat ->
  sum_below (length l * a) (fun u => F (nth (Z.to_nat (u / Z.of_nat a)) l O)) = INR a * total l F.
Proof.
  intros A. induction l as [|x l IH]; [simpl; lra|]. simpl length. cbn [Nat.mul]. rewrite sum_below_add.
  rewrite (sum_below_ext a _ (fun _ => F x)).
  - rewrite sum_below_const. rewrite (sum_below_ext _ _ (fun u => F (nth (Z.to_nat (u / Z.of_nat a)) l O))).
    + rewrite IH. simpl. lra.
    + intros u Hu. f_equal. replace (Z.of_nat a + u)%Z with (1 * Z.of_nat a + u)%Z by lia.
      rewrite Z.div_add_l by lia. rewrite Z2Nat.inj_add by (try lia; apply Z.div_pos; lia). reflexivity.
  - intros u Hu. now rewrite Z.div_small by lia.
Qed.

(** ** The base set has as many labels as it should *)

Lemma insert_by_permutation ws i l : Permutation (i :: l) (insert_by ws i l).
Proof.
  induction l as [|j l IH]; simpl; [reflexivity|]. destruct (_ <=? _)%Z; [reflexivity|].
  rewrite perm_swap. now apply perm_skip.
Qed.

Lemma sorted_permutation ws l : Permutation l (fold_right (insert_by ws) [] l).
Proof.
  induction l as [|i l IH]; simpl; [reflexivity|]. rewrite <- insert_by_permutation. now apply perm_skip.
Qed.

Lemma without_spec l k i : In i (without l k) <-> (i < k)%nat /\ ~ In i l.
Proof.
  unfold without. rewrite filter_In, in_seq, negb_true_iff. split; intros [H1 H2]; (split; [lia|]).
  - intros I. apply not_true_iff_false in H2. apply H2, existsb_exists. exists i. split; [assumption | apply Nat.eqb_refl].
  - apply not_true_iff_false. intros E. apply existsb_exists in E as [j [J E]]. apply Nat.eqb_eq in E as ->. contradiction.
Qed.

Lemma append_NoDup (l l' : list nat) : NoDup l -> NoDup l' -> (forall i, In i l -> ~ In i l') -> NoDup (l ++ l').
Proof.
  intros ND ND' D. induction ND as [|i l NI ND IH]; simpl; [assumption|]. constructor.
  - rewrite in_app_iff. intros [I|I]; [contradiction | now apply (D i); simpl; auto].
  - apply IH. intros j J. apply D. simpl. auto.
Qed.

(** What is in a list and what is not, together, are all labels. *)
Lemma with_and_without l k :
  NoDup l -> (forall i, In i l -> (i < k)%nat) -> Permutation (l ++ without l k) (seq 0 k).
Proof.
  intros ND B. apply NoDup_Permutation; [|apply seq_NoDup|].
  - apply append_NoDup; [assumption | apply NoDup_filter, seq_NoDup|]. intros i I J. now apply without_spec in J.
  - intros i. rewrite in_app_iff, without_spec, in_seq. split; [intros [I|[I _]]; [specialize (B i I)|]; lia|].
    intros I. destruct (in_dec Nat.eq_dec i l); [now left | right; split; [lia | assumption]].
Qed.

Definition good_base (k size : nat) (base : list nat) : Prop :=
  NoDup base /\ (forall i, In i base -> (i < k)%nat) /\ length base = size.

Lemma base_set_is_good size ws : (size <= length ws)%nat -> good_base (length ws) size (base_set size ws).
Proof.
  intros H. unfold base_set. set (k := length ws) in *. set (l := fold_right (insert_by ws) [] (seq 0 k)).
  pose proof (sorted_permutation ws (seq 0 k)) as P. fold l in P.
  assert (S : Permutation (firstn size l ++ skipn size l) (seq 0 k)) by (rewrite firstn_skipn; now symmetry).
  assert (ND : NoDup (skipn size l)).
  { assert (N : forall n (l' : list nat), NoDup l' -> NoDup (skipn n l')).
    { clear. induction n as [|n IH]; intros [|i l'] H; simpl; auto. inversion_clear H. auto. }
    apply N, (Permutation_NoDup P), seq_NoDup. }
  assert (B : forall i, In i (skipn size l) -> (i < k)%nat).
  { intros i I. assert (J : In i (seq 0 k)) by (apply (Permutation_in i S), in_app_iff; auto). apply in_seq in J. lia. }
  split; [apply NoDup_filter, seq_NoDup|]. split; [intros i I; now apply without_spec in I|].
  pose proof (Permutation_length (with_and_without _ k ND B)) as L. rewrite app_length, seq_length, skipn_length in L.
  apply Permutation_length in P. rewrite seq_length in P. lia.
Qed.

(** ** The shift *)

Lemma back_permutes k v : (v < k)%nat -> Permutation (map (back k v) (seq 0 k)) (seq 0 k).
Proof.
  intros V. apply NoDup_Permutation_bis; [| rewrite map_length; lia |].
  - apply NoDup_map_in; [|apply seq_NoDup]. intros x y X Y E. apply in_seq in X, Y. unfold back in E.
    assert (D : forall z, (z < k)%nat -> exists q, (v + k - z = q * k + (v + k - z) mod k)%nat /\ (q <= 1)%nat).
    { intros z Z. exists ((v + k - z) / k)%nat. pose proof (Nat.div_mod (v + k - z) k ltac:(lia)).
      split; [lia|]. assert ((v + k - z) / k < 2)%nat by (apply Nat.div_lt_upper_bound; lia). lia. }
    destruct (D x ltac:(lia)) as [q [Eq Q]], (D y ltac:(lia)) as [q' [Eq' Q']]. rewrite E in Eq.
    set (r := ((v + k - y) mod k)%nat) in *. destruct q as [|[|]], q' as [|[|]]; lia.
  - intros s I. apply in_map_iff in I as [x [<- _]]. apply in_seq. split; [lia|]. apply Nat.mod_upper_bound. lia.
Qed.

Lemma total_permutation {A} (l l' : list A) f : Permutation l l' -> total l f = total l' f.
Proof. induction 1; simpl; lra. Qed.

Lemma total_app {A} (l l' : list A) f : total (l ++ l') f = total l f + total l' f.
Proof. induction l as [|a l IH]; simpl; [lra | rewrite IH; lra]. Qed.

(** The law of the shift: a words for each label of the base set, b for each other label, and the rest for no shift. *)
Lemma law_of_shift k size a b base v F :
  good_base k size base -> (0 < a)%Z -> (0 < b)%Z ->
  (Z.of_nat size * a + Z.of_nat (k - size) * b <= SCALE)%Z ->
  mean (fun u => F (shift k a b base v u)) * IZR SCALE
  = IZR a * total base (fun x => F (back k v x)) + IZR b * total (without base k) (fun x => F (back k v x))
    + IZR (SCALE - Z.of_nat size * a - Z.of_nat (k - size) * b) * F O.
Proof.
  intros [ND [B Len]] A0 B0 Fit. pose proof IZR_SCALE_positive as HS. unfold mean.
  replace (sum_below words _ / IZR SCALE * IZR SCALE) with (sum_below words (fun u => F (shift k a b base v u))) by (field; lra).
  set (na := Z.to_nat a). set (nb := Z.to_nat b). set (others := without base k).
  assert (Lo : length others = (k - size)%nat).
  { pose proof (Permutation_length (with_and_without base k ND B)) as P. rewrite app_length, seq_length in P. fold others in P. lia. }
  set (r := Z.to_nat (SCALE - Z.of_nat size * a - Z.of_nat (k - size) * b)).
  assert (Ea : Z.of_nat na = a) by (unfold na; lia). assert (Eb : Z.of_nat nb = b) by (unfold nb; lia).
  assert (Ew : words = (length base * na + (length others * nb + r))%nat).
  { apply Nat2Z.inj. rewrite Z_words, !Nat2Z.inj_add, !Nat2Z.inj_mul, Ea, Eb, Len, Lo. unfold r. rewrite Z2Nat.id; lia. }
  rewrite Ew, !sum_below_add, Rplus_assoc. f_equal; [|f_equal].
  - rewrite (sum_below_ext _ _ (fun u => F (back k v (nth (Z.to_nat (u / Z.of_nat na)) base O)))).
    + rewrite (sum_in_stretches na base (fun x => F (back k v x))) by (unfold na; lia). now rewrite INR_IZR_INZ, Ea.
    + intros u Hu. unfold shift. rewrite Nat2Z.inj_mul, Ea in Hu. destruct (Z.ltb_spec u (Z.of_nat (length base) * a)); [|lia].
      now rewrite Ea.
  - rewrite (sum_below_ext _ _ (fun u => F (back k v (nth (Z.to_nat (u / Z.of_nat nb)) others O)))).
    + rewrite (sum_in_stretches nb others (fun x => F (back k v x))) by (unfold nb; lia). now rewrite INR_IZR_INZ, Eb.
    + intros u Hu. unfold shift. rewrite !Nat2Z.inj_mul, Ea, Eb, Lo in *. set (inside := (Z.of_nat (length base) * a)%Z) in *.
      destruct (Z.ltb_spec (inside + u) inside); [lia|]. rewrite Len.
      destruct (Z.ltb_spec (inside + u) (inside + Z.of_nat (k - size) * b)); [|lia].
      now replace (inside + u - inside)%Z with u by lia.
  - rewrite (sum_below_ext _ _ (fun _ => F O)).
    + rewrite sum_below_const, INR_IZR_INZ. unfold r. now rewrite Z2Nat.id by lia.
    + intros u Hu. unfold shift. rewrite !Nat2Z.inj_mul, Ea, Eb, Lo, Len.
      destruct (Z.ltb_spec (Z.of_nat size * a + (Z.of_nat (k - size) * b + u)) (Z.of_nat size * a)); [lia|].
      destruct (Z.ltb_spec (Z.of_nat size * a + (Z.of_nat (k - size) * b + u)) (Z.of_nat size * a + Z.of_nat (k - size) * b));
        [lia | reflexivity].
Qed.

(** The integers of a plan: a words for a label of the base set, b for another one, a at most e^eps times b. *)
Record valid_subset (k size : nat) (a b : Z) : Prop := {
  subset_size : (size <= k)%nat;
  subset_order : (0 < b <= a)%Z;
  subset_fits : (Z.of_nat size * a + Z.of_nat (k - size) * b <= SCALE)%Z
}.

(** Whatever the base set is, of any two labels: the sum over all labels x of F (back x) is the same for both, and a word
    of it counts from b to a times. *)
Lemma loss_of_shift k size a b L base v w :
  valid_subset k size a b -> good_base k size base -> (v < k)%nat -> (w < k)%nat -> 0 <= L -> IZR a <= exp L * IZR b ->
  loss L (u <- draw ;; Ret (shift k a b base v u)) (u <- draw ;; Ret (shift k a b base w u)).
Proof.
  intros [Sz Ord Fit] HB V W L0 HL F F0. simpl. pose proof IZR_SCALE_positive as HS. pose proof (exp_at_least_1 L L0) as e1.
  apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. rewrite Rmult_assoc.
  rewrite !(law_of_shift k size a b base _ F HB) by (assumption || lia). destruct HB as [ND [B Len]].
  assert (All : forall z, (z < k)%nat -> total base (fun x => F (back k z x)) + total (without base k) (fun x => F (back k z x))
                          = total (seq 0 k) F).
  { intros z Z. rewrite <- total_app, (total_permutation _ _ _ (with_and_without base k ND B)).
    rewrite <- (total_map (back k z)). now apply total_permutation, back_permutes. }
  assert (N : forall l z, 0 <= total l (fun x => F (back k z x))) by (intros; apply total_nonneg; auto).
  pose proof (All v V) as Av. pose proof (All w W) as Aw. set (T := total (seq 0 k) F) in *.
  pose proof (N base v). pose proof (N (without base k) v). pose proof (N base w). pose proof (N (without base k) w).
  set (p := total base (fun x => F (back k v x))) in *. set (q := total (without base k) (fun x => F (back k v x))) in *.
  set (p' := total base (fun x => F (back k w x))) in *. set (q' := total (without base k) (fun x => F (back k w x))) in *.
  destruct Ord as [O1 O2]. apply IZR_lt in O1. apply IZR_le in O2.
  assert (R0 : 0 <= IZR (SCALE - Z.of_nat size * a - Z.of_nat (k - size) * b) * F O) by (apply Rmult_le_pos; [apply IZR_le; lia | auto]).
  set (rest := IZR (SCALE - _ - _) * F O) in *.
  assert (IZR a * p + IZR b * q <= IZR a * T) by nra. assert (IZR b * T <= IZR a * p' + IZR b * q') by nra.
  assert (T0 : 0 <= T) by lra. assert (IZR a * T <= exp L * IZR b * T) by (apply Rmult_le_compat_r; assumption).
  assert (exp L * (IZR b * T) <= exp L * (IZR a * p' + IZR b * q')) by (apply Rmult_le_compat_l; lra). nra.
Qed.

(** Claim (subset selection): at most e^eps between any two labels, for every base set, and so for the one drawn. *)
Theorem subset_selection k size a b L :
  valid_subset k size a b -> 0 <= L -> IZR a <= exp L * IZR b -> bounds L (of_choices k size a b).
Proof.
  intros HV L0 HL X Y [S [V [secret [label_of [x [y [HC [-> ->]]]]]]]]. apply loss_given. intros s.
  pose proof (HC s x) as Hx. pose proof (HC s y) as Hy. set (v := label_of s x) in *. set (w := label_of s y) in *.
  unfold subset_answer. intros f F. rewrite !E_bind, <- E_scal.
  assert (Words : forall g h, (forall ws, length ws = k -> g ws <= h ws) -> E (draws k) g <= E (draws k) h).
  { clear. induction k as [|n IH]; intros g h H; [now apply H|]. rewrite !E_draws_S. apply mean_le. intros u _.
    apply IH. intros ws Lw. apply H. simpl. lia. }
  apply Words. intros ws Lw. cbv zeta. assert (HB : good_base k size (base_set size ws)).
  { rewrite <- Lw. apply base_set_is_good. rewrite Lw. apply HV. }
  apply (loss_of_shift k size a b L _ v w HV HB Hx Hy L0 HL (fun s => f (shifted k (base_set size ws) s))). intros z. apply F.
Qed.

(** With the integers of the documentation: b = ceil(2^64/(size e^eps + k - size)), a = floor((2^64 - (k - size) b)/size). *)
Theorem subset_formula k size a b eps :
  (0 < size)%nat -> IZR SCALE <= IZR b * (INR size * exp eps + INR (k - size)) ->
  (Z.of_nat size * a + Z.of_nat (k - size) * b <= SCALE)%Z -> IZR a <= exp eps * IZR b.
Proof.
  intros S0 HB Fit. apply IZR_le in Fit. rewrite plus_IZR, !mult_IZR, <- !INR_IZR_INZ in Fit.
  assert (0 < INR size) by (apply lt_0_INR; lia). apply (Rmult_le_reg_l (INR size)); [assumption | lra].
Qed.

(** The chance that the answer holds the device's own label, given the base set: (size a + r [v in the base set])/2^64. *)
Theorem subset_high k size a b base v :
  valid_subset k size a b -> good_base k size base -> (v < k)%nat ->
  mean (fun u => if existsb (fun y => Nat.eqb ((y + shift k a b base v u) mod k) v) base then 1 else 0) * IZR SCALE
  = INR size * IZR a + IZR (SCALE - Z.of_nat size * a - Z.of_nat (k - size) * b) * (if existsb (Nat.eqb v) base then 1 else 0).
Proof.
  intros [Sz Ord Fit] HB V. set (F := fun s => if existsb (fun y => Nat.eqb ((y + s) mod k) v) base then 1 else 0).
  transitivity (mean (fun u => F (shift k a b base v u)) * IZR SCALE); [reflexivity|].
  rewrite (law_of_shift k size a b base v F HB) by (assumption || lia). destruct HB as [ND [B Len]].
  assert (K : forall x, (x < k)%nat -> F (back k v x) = if existsb (Nat.eqb x) base then 1 else 0).
  { intros x X. unfold F, back.
    enough (Q : existsb (fun y => Nat.eqb ((y + (v + k - x) mod k) mod k) v) base = existsb (Nat.eqb x) base) by now rewrite Q.
    apply eq_true_iff_eq. rewrite !existsb_exists.
    split; intros [y [I E]]; exists y; (split; [assumption|]); apply Nat.eqb_eq; apply Nat.eqb_eq in E.
    - specialize (B y I). rewrite Nat.add_mod_idemp_r in E by lia. pose proof (Nat.div_mod (y + (v + k - x)) k ltac:(lia)) as D.
      rewrite E in D. assert ((y + (v + k - x)) / k < 3)%nat by (apply Nat.div_lt_upper_bound; lia).
      destruct ((y + (v + k - x)) / k)%nat as [|[|[|]]]; lia.
    - subst y. rewrite Nat.add_mod_idemp_r by lia. replace (x + (v + k - x))%nat with (v + 1 * k)%nat by lia.
      rewrite Nat.mod_add by lia. now apply Nat.mod_small. }
  rewrite (total_ext base _ (fun _ => 1)), (total_ext (without base k) _ (fun _ => 0)).
  - rewrite !total_const, Len. assert (E : F O = if existsb (Nat.eqb v) base then 1 else 0).
    { rewrite <- (K v V). unfold back. replace (v + k - v)%nat with (0 + 1 * k)%nat by lia. now rewrite Nat.mod_add, Nat.mod_0_l by lia. }
    rewrite E. ring.
  - intros x I. apply without_spec in I as [X I]. rewrite K by assumption. destruct (existsb (Nat.eqb x) base) eqn:E; [|reflexivity].
    apply existsb_exists in E as [y [J E]]. apply Nat.eqb_eq in E as ->. contradiction.
  - intros x I. rewrite K by now apply B. replace (existsb (Nat.eqb x) base) with true; [reflexivity|].
    symmetry. apply existsb_exists. exists x. split; [assumption | apply Nat.eqb_refl].
Qed.

(** ** Split of time *)

Lemma label_from_bound so_far whole u amounts : (label_from so_far whole u amounts <= length amounts)%nat.
Proof. revert so_far. induction amounts as [|a l IH]; intros s; simpl; [lia|]. destruct (_ <? _)%Z; [lia|]. specialize (IH (s + a)%Z). lia. Qed.

(** Claim (split of time, sampled): the amounts enter a report through one label alone, so any two vectors of t amounts
    differ by what the choice of t + 1 labels loses. *)
Theorem split_of_time t limit size a b L :
  valid_subset (S t) size a b -> 0 <= L -> IZR a <= exp L * IZR b ->
  forall xs ys : list Z, length xs = t -> length ys = t ->
  loss L (u <- draw ;; subset_answer (S t) size a b (label_at limit u xs))
         (u <- draw ;; subset_answer (S t) size a b (label_at limit u ys)).
Proof.
  intros HV L0 HL xs ys Lx Ly. apply (subset_selection (S t) size a b L HV L0 HL).
  exists Z, (list Z), draw, (fun u zs => Nat.min t (label_at limit u zs)), xs, ys. split; [intros; lia|].
  assert (K : forall u zs, length zs = t -> Nat.min t (label_at limit u zs) = label_at limit u zs).
  { intros u zs <-. apply Nat.min_r, label_from_bound. }
  unfold draw. simpl. split; f_equal; apply FunctionalExtensionality.functional_extensionality; intros u; now rewrite K.
Qed.

(** Remembered, by a moment or by darts: a choice of t + 1 labels whose secret is the darts, so that every claim about
    [of_values] of that choice is one about amounts. *)
Theorem split_remembered related m t limit darts L :
  bounds L (of_values related m) -> classes m = S t ->
  forall xs ys : list (list Z), related (list Z) xs ys ->
  loss L (answers (draws darts) (fun ws amounts => Nat.min t (label_by_darts limit ws amounts)) m xs)
         (answers (draws darts) (fun ws amounts => Nat.min t (label_by_darts limit ws amounts)) m ys).
Proof. intros H Hc xs ys R. apply H. do 6 eexists. repeat split; [intros; rewrite Hc; lia | exact R]. Qed.

(** ** The documented examples, replayed *)

Example subset_answers :
  let words := [9; 9; 9; 1; 9; 9; 9; 1; 9; 9]%Z in   (* the base set is 3 and 7; the device's label is 4 *)
  let sent u := option_map (fun bits => filter (fun l => hd false (nth l bits [])) (seq 0 10))
                           (run (subset_answer 10 2 3731865564003923956 1372876618212712963 4) (words ++ [u])) in
  map sent [0; 2 ^ 62; 2 ^ 63; 2 ^ 64 - 1]%Z = [Some [4; 8]; Some [0; 4]; Some [0; 6]; Some [2; 8]]%nat.
Proof. vm_compute. reflexivity. Qed.

Example labels_of_amounts :
  map (fun quarter => label_at 12 (quarter * 2 ^ 62) [6; 0; 3])%Z [0; 1; 2; 3]%Z = [0; 0; 2; 3]%nat
  /\ label_by_darts 12 [2 ^ 61; 2 ^ 63]%Z [6; 0; 3]%Z = 2%nat.
Proof. vm_compute. split; reflexivity. Qed.
