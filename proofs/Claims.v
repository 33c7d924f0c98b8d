(** * The claims of CLAIMS (src/reticent/privacy/claims.py), for every plan, with the formulas of the documentation

    For each: whom it compares, over what, and the figure. [answers m history] is everything that a device ever sends
    about metric m. [loss L X Y]: whatever is sent is at most e^L times as likely in case X as in case Y. Elsewhere:
    [loss_by_width_of_mean] (Patterns.v), [loss_of_sampled_plan] and [loss_of_windows] (Windows.v) and
    [joint_limit_of_group] (Joint.v).                                                                              *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Histories Patterns Rounding Joint Windows.
Import ListNotations.
Open Scope R_scope.

(** ** The mechanisms, with the thresholds of src/reticent/mechanisms *)

(** dBitFlip, d bits: class j < d is a bucket that is asked about, class d is none of them (or there is none). *)
Definition d_bit_flip (d k : nat) (lo G : Z) (class_of : Z -> Z -> nat) : metric := {|
  tables := map (fun j => map (fun c => if Nat.eqb c j then (SCALE - lo)%Z else lo) (seq 0 k)) (seq 0 d);
  low := lo; flip := G; classes := k; class_of := class_of
|}.

(** The Hadamard bit: the side of +1 or that of -1. *)
Definition hadamard_bit (lo G : Z) (class_of : Z -> Z -> nat) : metric := {|
  tables := [[(SCALE - lo)%Z; lo]]; low := lo; flip := G; classes := 2; class_of := class_of
|}.

Lemma hadamard_bit_is_valid lo G class_of :
  valid_low lo -> valid_flip G -> (forall a x, (class_of a x < 2)%nat) -> valid (hadamard_bit lo G class_of).
Proof.
  intros HL HG HC. constructor; simpl; auto. intros t [<-|[]]. split; [reflexivity|].
  destruct HL. repeat constructor; unfold valid_threshold; lia.
Qed.

Lemma d_bit_flip_is_valid d k lo G class_of :
  valid_low lo -> valid_flip G -> (forall a x, (class_of a x < k)%nat) -> valid (d_bit_flip d k lo G class_of).
Proof.
  intros HL HG HC. constructor; simpl; auto. intros t It. apply in_map_iff in It as [j [<- _]].
  rewrite map_length, seq_length. split; [reflexivity|]. apply Forall_forall. intros T IT.
  apply in_map_iff in IT as [c [<- _]]. destruct HL. unfold valid_threshold. destruct (Nat.eqb c j); lia.
Qed.

Lemma nth_table j k lo c :
  (c < k)%nat -> nth c (map (fun c => if Nat.eqb c j then (SCALE - lo)%Z else lo) (seq 0 k)) 0%Z
                 = if Nat.eqb c j then (SCALE - lo)%Z else lo.
Proof.
  intros H. set (f := fun c => if Nat.eqb c j then (SCALE - lo)%Z else lo).
  rewrite (nth_indep _ 0%Z (f 0%nat)) by (now rewrite map_length, seq_length).
  rewrite map_nth, seq_nth by assumption. reflexivity.
Qed.

(** Only two bits differ between two values, and no more than there are. *)
Lemma d_bit_flip_changes d k lo G class_of c c' :
  (c < k)%nat -> (c' < k)%nat -> (changed (d_bit_flip d k lo G class_of) c c' <= Nat.min 2 d)%nat.
Proof.
  intros B B'. unfold changed. unfold d_bit_flip at 1. cbn [tables]. rewrite map_map.
  set (t := fun j => map (fun c => if Nat.eqb c j then (SCALE - lo)%Z else lo) (seq 0 k)).
  assert (E : forall j, (moved c c' (t j) <= (if Nat.eqb j c then 1 else 0) + (if Nat.eqb j c' then 1 else 0))%nat).
  { intros j. unfold moved, t. rewrite !nth_table by assumption.
    rewrite (Nat.eqb_sym c), (Nat.eqb_sym c'). destruct (Nat.eqb j c), (Nat.eqb j c'); try (destruct (_ =? _)%Z; lia).
    rewrite Z.eqb_refl. lia. }
  apply Nat.min_glb.
  - change (list_sum (map (fun j => moved c c' (t j)) (seq 0 d)) <= 2)%nat.
    pose proof (count_once c (seq 0 d) (seq_NoDup d 0)) as C1. pose proof (count_once c' (seq 0 d) (seq_NoDup d 0)) as C2.
    enough (list_sum (map (fun j => moved c c' (t j)) (seq 0 d))
            <= list_sum (map (fun j => if Nat.eqb j c then 1 else 0) (seq 0 d))
               + list_sum (map (fun j => if Nat.eqb j c' then 1 else 0) (seq 0 d)))%nat by lia.
    rewrite <- list_sum_plus. clear C1 C2. clearbody t. generalize (seq 0 d). intros l.
    induction l as [|j l IH]; [simpl; lia|]. specialize (E j). unfold list_sum in *. cbn [map fold_right]. lia.
  - eapply Nat.le_trans; [apply (list_sum_le _ _ 1)|rewrite seq_length; lia].
    intros j _. unfold moved. destruct (_ =? _)%Z; lia.
Qed.

Lemma d_bit_flip_special d k lo G class_of t : In t (tables (d_bit_flip d k lo G class_of)) -> one_special t.
Proof.
  simpl. intros It. apply in_map_iff in It as [j [<- _]]. exists j. rewrite map_length, seq_length.
  intros c c' N N' B B'. rewrite !nth_table by assumption.
  destruct (Nat.eqb_spec c j), (Nat.eqb_spec c' j); try contradiction. reflexivity.
Qed.

(** ** The claims, for any of them *)

Section Claims.
  Variable m : metric.
  Variables h gamma : R.        (* the exponent of one answer bit; the chance of a flip *)
  Variable changed_bits : nat.  (* how many answer bits two values can change: 1, or 2 for dBitFlip with d >= 2 *)

  Hypothesis m_valid : valid m.
  Hypothesis h_nonneg : 0 <= h.
  Hypothesis low_rounded_up : coin_for h (low m).             (* low >= 2^64/(e^h + 1) *)
  Hypothesis flip_rounded_up : 0 <= gamma <= share (flip m).  (* G >= gamma 2^64 *)
  Hypothesis few_change : forall c c', (c < classes m)%nat -> (c' < classes m)%nat -> (changed m c c' <= changed_bits)%nat.

  Let d := length (tables m).
  Let Lambda := ln ((1 - gamma) / gamma).

  Lemma gamma_half : gamma <= 1 / 2.
  Proof. pose proof (share_flip _ (valid_m_flip m m_valid)). lra. Qed.

  Lemma h_of_rounds_nonneg n : 0 <= h_of_rounds h gamma n.
  Proof.
    induction n as [|n IH].
    - unfold h_of_rounds. simpl. pose proof (exp_pos h). rewrite !Rmult_1_r.
      replace ((exp h + 1) / (1 + exp h)) with 1 by (field; lra). rewrite ln_1. lra.
    - eapply Rle_trans; [exact IH|]. apply h_of_rounds_grows; [assumption|]. pose proof gamma_half; lra.
  Qed.

  (** One round, any two values: eps' = h' or 2h'. *)
  Theorem one_round x y : loss (INR changed_bits * h_of_rounds h gamma 1) (answers m [x]) (answers m [y]).
  Proof.
    apply (loss_of_constant_device m changed_bits (h_of_rounds h gamma 1) 1); auto using h_of_rounds_nonneg.
    apply formula_of_rounds; auto using (valid_m_low m m_valid), (valid_m_flip m m_valid).
  Qed.

  (** T rounds, any two values that never change: eps_T. *)
  Theorem constant_device T x y :
    loss (INR changed_bits * h_of_rounds h gamma T) (answers m (repeat x T)) (answers m (repeat y T)).
  Proof.
    apply loss_of_constant_device; auto using h_of_rounds_nonneg.
    apply formula_of_rounds; auto using (valid_m_low m m_valid), (valid_m_flip m m_valid).
  Qed.

  (** All rounds together: h (or 2h). *)
  Theorem constant_device_forever T x y : loss (INR changed_bits * h) (answers m (repeat x T)) (answers m (repeat y T)).
  Proof.
    eapply loss_weaken; [|apply constant_device]. apply Rmult_le_compat_l; [apply pos_INR|].
    apply h_of_rounds_at_most; [assumption|]. pose proof gamma_half; lra.
  Qed.

  (** Histories that differ in delta rounds: delta d Lambda. *)
  Theorem moved_change delta xs ys :
    0 < gamma -> length xs = length ys -> (rounds_differing Z.eq_dec xs ys <= delta)%nat ->
    loss (INR delta * INR d * Lambda) (answers m xs) (answers m ys).
  Proof.
    intros G0 L HD. apply loss_of_moved_change; auto.
    - unfold Lambda. pose proof gamma_half. rewrite <- ln_1. apply ln_le'; [lra|].
      apply (Rmult_le_reg_r gamma); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
    - apply hides_of_formula; [apply (valid_m_flip m m_valid) | lra].
  Qed.

  (** Any two histories of R rounds: d min( min(c, R) ln(e^h + 1) + floor(R/2) Lambda, R Lambda ). *)
  Theorem any_two_histories R xs ys :
    0 < gamma -> length xs = R -> length ys = R ->
    loss (INR d * Rmin (INR (Nat.min (classes m) R) * ln (exp h + 1) + INR (R / 2) * Lambda) (INR R * Lambda))
         (answers m xs) (answers m ys).
  Proof.
    intros G0 Lx Ly. apply loss_of_any_histories; auto.
    - rewrite <- ln_1. apply ln_le'; [lra|]. pose proof (exp_pos h); lra.
    - unfold Lambda. pose proof gamma_half. rewrite <- ln_1. apply ln_le'; [lra|].
      apply (Rmult_le_reg_r gamma); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
    - apply memo_odds_of_coin; [apply (valid_m_low m m_valid) | assumption].
    - apply hides_of_formula; [apply (valid_m_flip m m_valid) | lra].
  Qed.

  (** Devices whose rounded values repeat in one pattern of width w: min(changed_bits w, 2d) h for a histogram. *)
  Theorem same_pattern_histogram cs cs' :
    (forall t, In t (tables m) -> one_special t) -> same_pattern cs cs' ->
    (forall c, In c cs -> (c < classes m)%nat) -> (forall c, In c cs' -> (c < classes m)%nat) ->
    loss (INR (Nat.min (changed_bits * width cs) (2 * d)) * h) (answers_of_classes m cs) (answers_of_classes m cs').
  Proof. intros. now apply loss_by_width_of_histogram. Qed.

  (** And at most w h for one bit (a mean: Theorem 4 of the paper, with h = eps). *)
  Theorem same_pattern_one_bit cs cs' :
    d = 1%nat -> same_pattern cs cs' ->
    (forall c, In c cs -> (c < classes m)%nat) -> (forall c, In c cs' -> (c < classes m)%nat) ->
    loss (INR (width cs) * h) (answers_of_classes m cs) (answers_of_classes m cs').
  Proof. intros. now apply loss_by_width_of_one_bit. Qed.
End Claims.
