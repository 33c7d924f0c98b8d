(** * Any two histories, whatever the devices do in them

    The claim of loss_of_any_histories. No sequence of n answers is likelier than (1-g)^n. For the other device let all
    classes remember the *same* bit, the one that most answers show; that has a chance of at least (low/2^64)^w, and
    then at most half of all answers are flips.                                                                     *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device.
Import ListNotations.
Open Scope R_scope.

(** The sum of a score over all sequences of n answers. *)
Fixpoint sum_of_answers (n : nat) (f : list bool -> R) : R :=
  match n with
  | O => f []
  | S k => sum_of_answers k (fun l => f (true :: l)) + sum_of_answers k (fun l => f (false :: l))
  end.

Lemma sum_of_answers_nonneg n f : (forall l, 0 <= f l) -> 0 <= sum_of_answers n f.
Proof.
  revert f. induction n as [|n IH]; intros f F; simpl; [apply F|].
  pose proof (IH _ (fun l => F (true :: l))). pose proof (IH _ (fun l => F (false :: l))). lra.
Qed.

Lemma E_sent_most G bs f :
  valid_flip G -> (forall l, 0 <= f l) -> E (sent G bs) f <= (1 - share G) ^ length bs * sum_of_answers (length bs) f.
Proof.
  intros HG. pose proof (share_flip G HG). revert f. induction bs as [|b bs IH]; intros f F; [simpl; lra|].
  rewrite E_sent_cons by assumption. simpl.
  pose proof (IH _ (fun l => F (true :: l))) as T1. pose proof (IH _ (fun l => F (false :: l))) as T2.
  pose proof (E_nonneg (sent G bs) _ (fun l => F (true :: l))). pose proof (E_nonneg (sent G bs) _ (fun l => F (false :: l))).
  assert (W : forall o, 0 <= weight (share G) b o <= 1 - share G) by (intros o; unfold weight; destruct (eqb b o); lra).
  pose proof (Rmult_le_compat _ _ _ _ (proj1 (W true)) H0 (proj2 (W true)) T1).
  pose proof (Rmult_le_compat _ _ _ _ (proj1 (W false)) H1 (proj2 (W false)) T2). lra.
Qed.

(** Of N answers, i show true and j show false so far: with one of the two remembered bits at most N/2 are flips. *)
Lemma alike_least g n i j :
  0 <= g <= 1 / 2 -> forall G f, valid_flip G -> share G = g -> (forall l, 0 <= f l) ->
  forall N, N = (i + j + n)%nat ->
  (1 - g) ^ (N - N / 2) * g ^ (N / 2) * sum_of_answers n f
  <= (1 - g) ^ i * g ^ j * E (sent G (repeat true n)) f + (1 - g) ^ j * g ^ i * E (sent G (repeat false n)) f.
Proof.
  intros Hg G f HG EG. revert i j f. induction n as [|n IH]; intros i j f F N EN.
  - simpl sum_of_answers. simpl E. pose proof (F []) as F0.
    pose proof (Nat.div_mod N 2 ltac:(lia)) as DM. pose proof (Nat.mod_upper_bound N 2 ltac:(lia)) as MB.
    set (half := (N / 2)%nat) in *. clearbody half.
    assert (K : forall a b, (a + b = N)%nat -> (b <= half)%nat -> (1 - g) ^ (N - half) * g ^ half <= (1 - g) ^ a * g ^ b).
    { intros a b S B. replace a with ((N - half) + (half - b))%nat by lia.
      assert (Eb : g ^ half = g ^ (half - b) * g ^ b) by (rewrite <- pow_add; f_equal; lia). rewrite Eb, pow_add.
      destruct (powers g (half - b) Hg) as [_ [_ P]], (powers g (N - half) Hg) as [A _], (powers g b Hg) as [_ [B0 _]].
      rewrite !Rmult_assoc. apply Rmult_le_compat_l; [lra|]. now apply Rmult_le_compat_r. }
    destruct (powers g i Hg) as [I1 [I2 _]], (powers g j Hg) as [J1 [J2 _]].
    assert (0 <= (1 - g) ^ i * g ^ j) by nra. assert (0 <= (1 - g) ^ j * g ^ i) by nra.
    destruct (le_lt_dec j half) as [J|J]; [pose proof (K i j ltac:(lia) J); nra|].
    assert (I : (i <= half)%nat) by (clear - DM MB J EN; lia). pose proof (K j i ltac:(lia) I). nra.
  - cbn [repeat sum_of_answers]. rewrite !E_sent_cons, EG by assumption.
    pose proof (IH (S i) j _ (fun l => F (true :: l)) N ltac:(lia)) as T1.
    pose proof (IH i (S j) _ (fun l => F (false :: l)) N ltac:(lia)) as T2. cbn [pow] in T1, T2. unfold weight. cbn [eqb]. lra.
Qed.

(** All remembered bits are [b]: not rarer than (low/2^64)^w. *)
Lemma E_all_alike lo ts b f :
  valid_low lo -> Forall (valid_threshold lo) ts -> (forall l, 0 <= f l) ->
  share lo ^ length ts * f (repeat b (length ts)) <= E (each (map coin ts)) f.
Proof.
  intros HL HF. revert f. pose proof (share_low lo HL). induction HF as [|t ts Ht HF IH]; intros f F; [simpl; lra|].
  cbn [map]. rewrite E_each_cons, E_coin by (now apply in_scale with lo). pose proof (share_bounds lo t Ht).
  pose proof (IH _ (fun l => F (b :: l))) as I. pose proof (E_nonneg (each (map coin ts)) _ (fun l => F (negb b :: l))) as N.
  pose proof (F (b :: repeat b (length ts))). assert (0 < share lo ^ length ts) by (apply pow_lt; lra).
  simpl length. cbn [repeat pow]. set (p := E _ (fun l => f (b :: l))) in *.
  assert (share lo * (share lo ^ length ts * f (b :: repeat b (length ts))) <= share lo * p) by (apply Rmult_le_compat_l; lra).
  assert (0 <= p) by nra. destruct b; simpl negb in N; fold p; nra.
Qed.

Lemma E_column_least lo table G cs f :
  valid_low lo -> Forall (valid_threshold lo) table -> cs <> [] -> (forall c, In c cs -> (c < length table)%nat) ->
  (forall l, 0 <= f l) ->
  share lo ^ width cs * (E (sent G (repeat true (length cs))) f + E (sent G (repeat false (length cs))) f)
  <= E (column table G cs) f.
Proof.
  intros HL HF NE HB F. unfold width. set (us := nodup Nat.eq_dec cs).
  assert (Hus : forall u, In u us <-> In u cs) by (intros; apply nodup_In).
  rewrite <- (map_id cs) at 3. rewrite (E_column_by_pattern table G (fun c => c) us cs).
  2: { rewrite map_id. apply NoDup_nodup. }
  2: { intros u Hu. now apply HB, Hus. }
  2: { intros c Hc. now apply Hus. }
  unfold by_pattern. rewrite E_bind. set (ts := map (fun u => nth u table 0%Z) us).
  assert (HT : Forall (valid_threshold lo) ts).
  { rewrite Forall_forall in *. intros t Ht. apply in_map_iff in Ht as [u [<- Hu]]. apply HF, nth_In, HB, Hus, Hu. }
  set (g := fun bits => E (sent G (map (fun c => nth (place c us) bits false) cs)) f).
  assert (g0 : forall l, 0 <= g l) by (intros; now apply E_nonneg).
  assert (same : forall b, g (repeat b (length us)) = E (sent G (repeat b (length cs))) f).
  { intros b. unfold g. do 2 f_equal. assert (A : forall l, (forall c, In c l -> In c us) ->
      map (fun c => nth (place c us) (repeat b (length us)) false) l = repeat b (length l)).
    { induction l as [|c l IH]; intros I; simpl; [reflexivity|]. rewrite IH by (intros; apply I; simpl; auto). f_equal.
      rewrite nth_indep with (d' := b) by (rewrite repeat_length; apply place_below, I; simpl; auto). apply nth_repeat. }
    apply A. intros c. apply Hus. }
  rewrite <- !same. assert (L : length us = length ts) by (unfold ts; now rewrite map_length). rewrite L.
  destruct ts as [|t ts'] eqn:Et.
  { exfalso. destruct cs as [|c cs]; [contradiction|]. assert (I : In c us) by (apply Hus; simpl; auto).
    destruct us; [destruct I | discriminate]. }
  clear L same Et. inversion_clear HT as [|? ? Ht HT']. pose proof (share_bounds lo t Ht). pose proof (share_low lo HL).
  cbn [map]. rewrite E_each_cons, E_coin by (now apply in_scale with lo). simpl length. cbn [repeat pow].
  pose proof (E_all_alike lo ts' true _ HL HT' (fun l => g0 (true :: l))) as T1.
  pose proof (E_all_alike lo ts' false _ HL HT' (fun l => g0 (false :: l))) as T2.
  pose proof (g0 (true :: repeat true (length ts'))). pose proof (g0 (false :: repeat false (length ts'))).
  assert (0 < share lo ^ length ts') by (apply pow_lt; lra).
  set (p := E _ (fun l => g (true :: l))) in *. set (q := E _ (fun l => g (false :: l))) in *.
  assert (0 <= p) by nra. assert (0 <= q) by nra. nra.
Qed.

Lemma pow_at_least_1 x n : 1 <= x -> 1 <= x ^ n.
Proof. intros H. rewrite <- (pow1 n). apply pow_incr. lra. Qed.

Lemma exp_INR n a : exp (INR n * a) = exp a ^ n.
Proof.
  induction n as [|n IH]; [simpl; rewrite Rmult_0_l; apply exp_0|].
  rewrite S_INR, Rmult_plus_distr_r, exp_plus, IH, Rmult_1_l. simpl. ring.
Qed.

(** A class remembers a given bit with chance at least e^-a: low/2^64. *)
Definition memo_odds (lo : Z) (a : R) : Prop := IZR SCALE <= exp a * IZR lo.

Lemma width_bound n cs : (forall c, In c cs -> (c < n)%nat) -> (width cs <= Nat.min n (length cs))%nat.
Proof.
  intros H. apply Nat.min_glb.
  - rewrite <- (seq_length n 0). apply NoDup_incl_length; [apply NoDup_nodup|].
    intros u Hu. apply nodup_In in Hu. apply in_seq. specialize (H u Hu). lia.
  - apply NoDup_incl_length; [apply NoDup_nodup|]. intros u Hu. now apply nodup_In in Hu.
Qed.

Theorem loss_of_any_column lo table G a L cs cs' n :
  valid_low lo -> Forall (valid_threshold lo) table -> valid_flip G -> 0 <= a -> 0 <= L ->
  memo_odds lo a -> hides G L -> length cs = n -> length cs' = n ->
  (forall c, In c cs' -> (c < length table)%nat) ->
  loss (INR (Nat.min (length table) n) * a + INR (n / 2) * L) (column table G cs) (column table G cs').
Proof.
  intros HL HF HG Ha H0 HM HH Lcs Lcs' HB f F. pose proof (share_flip G HG) as Hg. pose proof (share_low lo HL) as Hlo.
  destruct n as [|n'].
  { destruct cs, cs'; try discriminate. simpl. rewrite Nat.min_0_r. simpl. rewrite !Rmult_0_l, Rplus_0_l, exp_0. lra. }
  set (n := S n') in *. set (g := share G) in *. set (Total := sum_of_answers n f).
  assert (T0 : 0 <= Total) by now apply sum_of_answers_nonneg.
  apply Rle_trans with ((1 - g) ^ n * Total).
  { unfold column. rewrite E_bind, <- (E_const (draws (length table)) ((1 - g) ^ n * Total)). apply E_le. intros memo.
    eapply Rle_trans; [now apply E_sent_most|]. rewrite map_length, Lcs. fold g Total. lra. }
  assert (NE : cs' <> []) by (intros ->; discriminate).
  eapply Rle_trans; [|apply Rmult_le_compat_l; [left; apply exp_pos | apply E_column_least with (lo := lo); auto]].
  pose proof (alike_least g n 0 0 Hg G f HG eq_refl F n eq_refl) as A. cbn [pow] in A.
  rewrite !Rmult_1_l, Lcs' in *. fold Total in A. set (Both := _ + _) in *.
  rewrite exp_plus, !exp_INR. pose proof (exp_at_least_1 a Ha) as ea. destruct (powers g (n / 2) Hg) as [_ [g0 _]].
  pose proof (width_bound _ _ HB) as W. rewrite Lcs' in W. set (k := Nat.min (length table) n) in *.
  assert (memo : 1 <= exp a ^ k * share lo ^ width cs').
  { replace k with (width cs' + (k - width cs'))%nat by lia. rewrite pow_add.
    assert (P : 1 <= (exp a * share lo) ^ width cs').
    { apply pow_at_least_1. apply by_shares in HM. now rewrite share_all in HM. }
    rewrite Rpow_mult_distr in P. pose proof (pow_at_least_1 (exp a) (k - width cs') ea). nra. }
  assert (flips : (1 - g) ^ (n / 2) <= exp L ^ (n / 2) * g ^ (n / 2)).
  { rewrite <- Rpow_mult_distr. apply pow_incr. split; [lra|]. now apply hides_share. }
  assert (D : (n / 2 <= n)%nat) by (apply Nat.div_le_upper_bound; lia).
  replace ((1 - g) ^ n) with ((1 - g) ^ (n - n / 2) * (1 - g) ^ (n / 2)) by (rewrite <- pow_add; f_equal; lia).
  destruct (powers g (n - n / 2) Hg) as [P0 _]. set (x := (1 - g) ^ (n - n / 2)) in *.
  set (e := exp L ^ (n / 2)) in *. assert (e0 : 0 <= e) by (apply pow_le; left; apply exp_pos).
  set (m := exp a ^ k * share lo ^ width cs') in *.
  replace (exp a ^ k * e * (share lo ^ width cs' * Both)) with (m * (e * Both)) by (unfold m; ring).
  assert (e * (x * g ^ (n / 2) * Total) <= e * Both) by (apply Rmult_le_compat_l; assumption).
  assert (x * Total * (1 - g) ^ (n / 2) <= x * Total * (e * g ^ (n / 2))).
  { apply Rmult_le_compat_l; [|assumption]. apply Rmult_le_pos; lra. }
  assert (0 <= e * Both) by (apply Rle_trans with (e * (x * g ^ (n / 2) * Total)); [|assumption]; apply Rmult_le_pos; [assumption|];
    apply Rmult_le_pos; [apply Rmult_le_pos; lra | assumption]).
  nra.
Qed.

Lemma any_two_differ V n (xs ys : list V) : any_two n V xs ys -> differ_in n xs ys.
Proof.
  intros [<- L]. revert ys L. induction xs as [|x xs IH]; intros [|y ys] L; try discriminate; constructor. apply IH. auto.
Qed.

(** Claim (loss_of_any_histories): d . min( min(c,R) a + floor(R/2) Lambda, R Lambda ), with a = ln(e^h + 1). *)
Theorem loss_of_any_histories m a L n :
  valid m -> 0 <= a -> 0 <= L -> memo_odds (low m) a -> hides (flip m) L ->
  bounds (INR (length (tables m)) * Rmin (INR (Nat.min (classes m) n) * a + INR (n / 2) * L) (INR n * L))
         (of_values (any_two n) m).
Proof.
  intros V Ha HL HM HH. apply by_classes.
  { intros A B f xs ys [E1 E2]. split; now rewrite map_length. }
  intros cs cs' HA _ B'. unfold Rmin. destruct (Rle_dec _ _) as [_|_].
  - unfold answers_of_classes. rewrite <- total_const. apply loss_each_map. intros t Ht.
    destruct (valid_m_tables m V t Ht) as [Lt Ft]. rewrite <- Lt. destruct HA.
    apply loss_of_any_column with (low m); auto using valid_m_low, valid_m_flip. intros c Hc. rewrite Lt. auto.
  - eapply loss_weaken; [|apply loss_of_moved_classes with (L := L); eauto using any_two_differ]. right. ring.
Qed.

(** In the formula's terms. *)
Lemma memo_odds_of_coin h lo : coin_for h lo -> memo_odds lo (ln (exp h + 1)).
Proof. unfold coin_for, memo_odds. rewrite exp_ln by (pose proof (exp_pos h); lra). lra. Qed.

Lemma hides_of_formula gamma G : valid_flip G -> 0 < gamma <= share G -> hides G (ln ((1 - gamma) / gamma)).
Proof.
  intros HG H. pose proof (share_flip G HG) as Hg. unfold hides. apply by_shares. rewrite share_rest.
  rewrite exp_ln by (apply Rdiv_lt_0_compat; lra). apply (Rmult_le_reg_r gamma); [lra|].
  replace ((1 - gamma) / gamma * share G * gamma) with ((1 - gamma) * share G) by (field; lra). nra.
Qed.
