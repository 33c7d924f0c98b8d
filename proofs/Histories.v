(** * Any two histories, whatever the devices do in them

    The claim of loss_of_any_histories. Its proof needs one idea less than the docstring's: all classes remember the
    *same* bit, the one that most answers show, with chance at least (low/2^64)^w; then at most half of all answers
    are flips.                                                                                                     *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device.
Import ListNotations.
Open Scope R_scope.

Lemma E_each_le {A} (ms : list (program A)) f g :
  (forall l, length l = length ms -> f l <= g l) -> E (each ms) f <= E (each ms) g.
Proof.
  revert f g. induction ms as [|m ms IH]; intros f g H; [apply H; reflexivity|].
  rewrite !E_each_cons. apply E_le. intros a. apply IH. intros l L. apply H. simpl. lia.
Qed.

(** All remembered bits are [b]: not rarer than (low/2^64)^w. *)
Lemma E_all_alike lo ts b :
  valid_low lo -> Forall (valid_threshold lo) ts ->
  share lo ^ length ts <= E (each (map coin ts)) (fun bits => if forallb (eqb b) bits then 1 else 0).
Proof.
  intros HL HF. induction HF as [|t ts Ht HF IH]; simpl length; [simpl; lra|].
  change (map coin (t :: ts)) with (coin t :: map coin ts).
  rewrite E_each_cons, E_coin by (now apply in_scale with lo).
  pose proof (share_bounds lo t HL Ht) as B. pose proof (share_low lo HL) as B0.
  set (Q := E (each (map coin ts)) (fun bits => if forallb (eqb b) bits then 1 else 0)) in *.
  assert (pow0 : 0 <= share lo ^ length ts) by (apply pow_le; lra).
  assert (yes : E (each (map coin ts)) (fun l => if forallb (eqb b) (b :: l) then 1 else 0) = Q).
  { apply E_ext. intros l. simpl. now rewrite eqb_reflx. }
  assert (no : E (each (map coin ts)) (fun l => if forallb (eqb b) (negb b :: l) then 1 else 0) = 0).
  { erewrite E_ext; [apply E_const|]. intros l. simpl. now destruct b. }
  destruct b; simpl negb in no; rewrite yes, no; simpl pow; nra.
Qed.

(** How many answers differ from [b]. *)
Definition others (b : bool) (os : list bool) : nat := list_sum (map (fun o => if eqb b o then 0%nat else 1%nat) os).

Lemma others_or b os : (others b os + others (negb b) os = length os)%nat.
Proof.
  unfold others. induction os as [|o os IH]; simpl; [reflexivity|]. destruct b, o; simpl in *; lia.
Qed.

Lemma few_others os : exists b, (others b os <= length os / 2)%nat.
Proof.
  pose proof (others_or true os) as H. simpl in H.
  pose proof (Nat.div_mod (length os) 2). pose proof (Nat.mod_upper_bound (length os) 2).
  destruct (le_lt_dec (others true os) (length os / 2)); [exists true | exists false]; lia.
Qed.

Lemma likelihood_alike g b os :
  likelihood g (repeat b (length os)) os * (1 - g) ^ others b os = (1 - g) ^ length os * g ^ others b os.
Proof.
  unfold others. induction os as [|o os IH]; simpl; [lra|].
  set (s := list_sum _) in *. set (K := likelihood g (repeat b (length os)) os) in *.
  unfold weight. destruct (eqb b o).
  - replace ((1 - g) * K * (1 - g) ^ (0 + s)) with ((1 - g) * (K * (1 - g) ^ s)) by (simpl; ring).
    rewrite IH. simpl. ring.
  - replace (g * K * (1 - g) ^ (1 + s)) with (g * (1 - g) * (K * (1 - g) ^ s)) by (simpl; ring).
    rewrite IH. simpl. ring.
Qed.

Lemma likelihood_lengths g bs os : length bs <> length os -> likelihood g bs os = 0.
Proof.
  revert os. induction bs as [|b bs IH]; intros [|o os] H; simpl in *; try lia; try reflexivity.
  rewrite IH by lia. lra.
Qed.

Lemma P_column_most table G cs os :
  valid_flip G -> P (column table G cs) (is answers_dec os) <= (1 - share G) ^ length cs.
Proof.
  intros HG. unfold column, P. rewrite E_bind.
  rewrite <- (E_const (draws (length table)) ((1 - share G) ^ length cs)). apply E_le. intros memo.
  pose proof (P_sent G (map (fun c => (nth c memo 0 <? nth c table 0)%Z) cs) os HG) as H.
  unfold P in H. rewrite H. eapply Rle_trans; [apply likelihood_most; now apply share_flip|].
  rewrite map_length. lra.
Qed.

Lemma P_column_least lo table G cs os b :
  valid_low lo -> Forall (valid_threshold lo) table -> valid_flip G -> length os = length cs ->
  (forall c, In c cs -> (c < length table)%nat) ->
  share lo ^ length (nodup Nat.eq_dec cs) * likelihood (share G) (repeat b (length os)) os
  <= P (column table G cs) (is answers_dec os).
Proof.
  intros HL HF HG Len HB. set (us := nodup Nat.eq_dec cs).
  assert (Hus : forall u, In u us -> (u < length table)%nat).
  { intros u Hu. apply HB. now apply nodup_In in Hu. }
  unfold P. rewrite <- (map_id cs) at 1.
  rewrite (E_column_by_pattern table G (fun c => c) us cs).
  2: { rewrite map_id. apply NoDup_nodup. }
  2: { exact Hus. }
  2: { intros c Hc. now apply nodup_In. }
  unfold by_pattern. rewrite E_bind.
  set (ts := map (fun u => nth u table 0%Z) us).
  set (K := likelihood (share G) (repeat b (length os)) os).
  assert (K0 : 0 <= K) by (apply likelihood_nonneg; now apply share_flip).
  apply Rle_trans with (E (each (map coin ts)) (fun bits => K * (if forallb (eqb b) bits then 1 else 0))).
  - rewrite E_scal, Rmult_comm. apply Rmult_le_compat_l; [assumption|].
    replace (length us) with (length ts) by apply map_length.
    apply E_all_alike; [assumption|]. unfold ts. rewrite Forall_forall in *. intros t Ht.
    apply in_map_iff in Ht as [u [<- Hu]]. apply HF, nth_In. auto.
  - apply E_each_le. intros bits Lb. unfold ts in Lb. rewrite !map_length in Lb.
    pose proof (P_sent G (map (fun c => nth (place c us) bits false) cs) os HG) as H.
    unfold P in H. rewrite H. destruct (forallb (eqb b) bits) eqn:Hb.
    + rewrite Rmult_1_r. unfold K. rewrite Len.
      replace (map (fun c => nth (place c us) bits false) cs) with (repeat b (length cs)); [lra|].
      rewrite forallb_forall in Hb.
      assert (HIn : forall c, In c cs -> In c us) by (intros; now apply nodup_In).
      clearbody us. clear - Hb HIn Lb.
      assert (A : forall c, In c cs -> nth (place c us) bits false = b).
      { intros c Hc. symmetry. apply eqb_prop, Hb, nth_In. rewrite Lb.
        pose proof (HIn c Hc) as I.
        clear - I. induction us as [|u us IH]; [destruct I|]. simpl.
        destruct (Nat.eqb_spec u c) as [->|NE]; [simpl; lia|].
        destruct I as [->|I]; [contradiction|]. simpl. specialize (IH I). lia. }
      clear - A. induction cs as [|c cs IH]; simpl; [reflexivity|].
      rewrite (A c) by (simpl; auto). f_equal. apply IH. intros; apply A; simpl; auto.
    + rewrite Rmult_0_r. apply likelihood_nonneg. now apply share_flip.
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

Theorem loss_of_any_column lo table G a L cs cs' n :
  valid_low lo -> Forall (valid_threshold lo) table -> valid_flip G -> 0 <= a -> 0 <= L ->
  memo_odds lo a -> hides G L -> length cs = n -> length cs' = n ->
  (forall c, In c cs' -> (c < length table)%nat) ->
  loss (INR (Nat.min (length table) n) * a + INR (n / 2) * L) (column table G cs) (column table G cs').
Proof.
  intros HL HF HG Ha H0 HM HH Lcs Lcs' HB. apply (loss_means answers_dec). intros os.
  pose proof (share_flip G HG) as Hg. pose proof (share_low lo HL) as Hlo.
  set (g := share G) in *. set (M := INR (Nat.min (length table) n) * a + INR (n / 2) * L).
  destruct (Nat.eq_dec (length os) n) as [Los|Los].
  2: { (* an answer of another length is never sent *)
    assert (Z0 : P (column table G cs) (is answers_dec os) = 0).
    { unfold column, P. rewrite E_bind. erewrite E_ext; [apply E_const|]. intros memo.
      pose proof (P_sent G (map (fun c => (nth c memo 0 <? nth c table 0)%Z) cs) os HG) as H.
      unfold P in H. rewrite H. apply likelihood_lengths. rewrite map_length. lia. }
    rewrite Z0. apply Rmult_le_pos; [left; apply exp_pos|].
    apply E_nonneg. intros x. destruct (is answers_dec os x); lra. }
  destruct (few_others os) as [b Hb]. rewrite Los in Hb.
  eapply Rle_trans; [now apply P_column_most|]. fold g. rewrite Lcs.
  eapply Rle_trans; [|apply Rmult_le_compat_l;
    [left; apply exp_pos | apply P_column_least with (lo := lo) (b := b); auto; lia]].
  fold g. set (us := nodup Nat.eq_dec cs'). set (F := others b os) in *.
  (* the number of classes in use *)
  assert (W : (length us <= Nat.min (length table) n)%nat).
  { apply Nat.min_glb.
    - rewrite <- (seq_length (length table) 0). apply NoDup_incl_length; [apply NoDup_nodup|].
      intros u Hu. apply in_seq. apply nodup_In in Hu. specialize (HB u Hu). lia.
    - rewrite <- Lcs'. apply NoDup_incl_length; [apply NoDup_nodup|].
      intros u Hu. now apply nodup_In in Hu. }
  pose proof (exp_at_least_1 a Ha) as ea. pose proof (exp_at_least_1 L H0) as eL.
  assert (memo : 1 <= exp (INR (Nat.min (length table) n) * a) * share lo ^ length us).
  { rewrite exp_INR. set (k := Nat.min (length table) n) in *.
    replace k with (length us + (k - length us))%nat by lia. rewrite pow_add.
    assert (1 <= (exp a * share lo) ^ length us).
    { apply pow_at_least_1. unfold memo_odds in HM. unfold share. pose proof IZR_SCALE_positive.
      apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra. }
    rewrite Rpow_mult_distr in H. pose proof (pow_at_least_1 (exp a) (k - length us) ea). nra. }
  assert (flips : (1 - g) ^ F <= exp (INR (n / 2) * L) * g ^ F).
  { rewrite exp_INR. replace (n / 2)%nat with (F + (n / 2 - F))%nat by lia. rewrite pow_add.
    assert ((1 - g) ^ F <= (exp L * g) ^ F).
    { apply pow_incr. split; [lra|]. now apply hides_share. }
    rewrite Rpow_mult_distr in H. pose proof (pow_at_least_1 (exp L) (n / 2 - F) eL).
    assert (0 <= exp L ^ F * g ^ F) by (apply Rmult_le_pos; apply pow_le; lra). nra. }
  pose proof (likelihood_alike g b os) as A. rewrite Los in A. fold F in A. rewrite Los.
  set (K := likelihood g (repeat b n) os) in *.
  assert (pos : 0 < (1 - g) ^ F) by (apply pow_lt; lra).
  assert (posn : 0 < (1 - g) ^ n) by (apply pow_lt; lra).
  apply (Rmult_le_reg_r ((1 - g) ^ F)); [assumption|].
  unfold M. rewrite exp_plus.
  set (x := exp (INR (Nat.min (length table) n) * a)) in *. set (y := exp (INR (n / 2) * L)) in *.
  replace (x * y * (share lo ^ length us * K) * (1 - g) ^ F)
    with (x * share lo ^ length us * (y * (K * (1 - g) ^ F))) by ring.
  rewrite A.
  replace (y * ((1 - g) ^ n * g ^ F)) with ((1 - g) ^ n * (y * g ^ F)) by ring.
  assert ((1 - g) ^ n * (1 - g) ^ F <= (1 - g) ^ n * (y * g ^ F)) by (apply Rmult_le_compat_l; lra).
  assert (0 <= (1 - g) ^ n * (1 - g) ^ F) by nra.
  nra.
Qed.

Lemma rounds_differing_most {A} eq_dec (xs ys : list A) : (rounds_differing eq_dec xs ys <= length xs)%nat.
Proof.
  revert ys. induction xs as [|x xs IH]; intros [|y ys]; simpl; try lia.
  specialize (IH ys). destruct (eq_dec x y); lia.
Qed.

(** Claim (loss_of_any_histories): d . min( min(c,R) a + floor(R/2) Lambda, R Lambda ), with a = ln(e^h + 1). *)
Theorem loss_of_any_histories m a L n xs ys :
  valid m -> 0 <= a -> 0 <= L -> memo_odds (low m) a -> hides (flip m) L ->
  length xs = n -> length ys = n ->
  loss (INR (length (tables m)) * Rmin (INR (Nat.min (classes m) n) * a + INR (n / 2) * L) (INR n * L))
       (answers m xs) (answers m ys).
Proof.
  intros V Ha HL HM HH Lx Ly. unfold answers. apply loss_given. intros alpha.
  unfold Rmin. destruct (Rle_dec _ _) as [_|_].
  - unfold answers_of_classes. rewrite <- total_const. apply loss_each_map. intros t Ht.
    destruct (valid_m_tables m V t Ht) as [Lt Ft]. rewrite <- Lt.
    apply loss_of_any_column with (low m); auto using valid_m_low, valid_m_flip; try (now rewrite map_length).
    intros c Hc. apply in_map_iff in Hc as [x [<- _]]. rewrite Lt. apply (valid_m_class m V).
  - eapply loss_weaken; [|apply loss_of_moved_classes with (L := L); auto; rewrite !map_length; lia].
    rewrite (Rmult_comm (INR (length (tables m)))), Rmult_assoc, (Rmult_comm _ L), <- Rmult_assoc.
    apply Rmult_le_compat_r; [apply pos_INR|]. apply Rmult_le_compat_r; [assumption|].
    apply le_INR. eapply Nat.le_trans; [apply rounds_differing_most|]. rewrite map_length. lia.
Qed.

(** In the formula's terms. *)
Theorem memo_odds_of_coin h lo : valid_low lo -> coin_for h lo -> memo_odds lo (ln (exp h + 1)).
Proof.
  intros _ H. unfold memo_odds. rewrite exp_ln by (pose proof (exp_pos h); lra).
  unfold coin_for in H. lra.
Qed.

Theorem hides_of_formula gamma G :
  valid_flip G -> 0 < gamma <= share G -> hides G (ln ((1 - gamma) / gamma)).
Proof.
  intros HG H. pose proof (share_flip G HG) as Hg. unfold hides.
  rewrite exp_ln by (apply Rdiv_lt_0_compat; lra).
  rewrite minus_IZR. unfold share in *. pose proof IZR_SCALE_positive as HS.
  assert (E1 : gamma * IZR SCALE <= IZR G).
  { destruct H as [_ H]. apply (Rmult_le_compat_r (IZR SCALE)) in H; [|lra]. field_simplify in H; lra. }
  apply (Rmult_le_reg_r gamma); [lra|].
  replace ((1 - gamma) / gamma * IZR G * gamma) with ((1 - gamma) * IZR G) by (field; lra). lra.
Qed.
