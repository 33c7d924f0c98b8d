(** * The claims of CLAIMS (reticent_collector/privacy/claims.py), for every plan, with the formulas of the documentation

    For each: whom it compares, over what, and the figure. [answers secret class_of m history] is everything that a device
    ever sends about metric m. [loss L X Y]: whatever is sent is at most e^L times as likely in case X as in case Y.
    Elsewhere: [loss_by_width_of_mean] (Patterns.v), [joint_bound_of_alike] and [joint_bound_of_unlike] (Joint.v),
    [loss_of_asked] (Plans.v), [loss_of_windows] and [loss_of_a_year] (Windows.v), [subset_selection] and [split_of_time]
    (Labels.v), [spells_know_times_only] (Spells.v).                                                               *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Histories Patterns.
Import ListNotations.
Open Scope R_scope.

(** ** The mechanisms, with the thresholds of src/reticent/mechanisms *)

(** Of k classes, the one that answer bit j asks about. *)
Definition asks (j k : nat) (lo : Z) : list Z := map (fun c => if Nat.eqb c j then (SCALE - lo)%Z else lo) (seq 0 k).

(** dBitFlip, d bits: class j < d is a bucket that is asked about, class d is none of them (or there is none). *)
Definition d_bit_flip (d k : nat) (lo G : Z) : metric := {|
  tables := map (fun j => asks j k lo) (seq 0 d); low := lo; flip := G; classes := k
|}.

(** The Hadamard bit: the side of +1 or that of -1. *)
Definition hadamard_bit (lo G : Z) : metric := {| tables := [[(SCALE - lo)%Z; lo]]; low := lo; flip := G; classes := 2 |}.

Lemma hadamard_bit_is_valid lo G : valid_low lo -> valid_flip G -> valid (hadamard_bit lo G).
Proof.
  intros HL HG. constructor; simpl; auto. intros t [<-|[]]. split; [reflexivity|].
  destruct HL. repeat constructor; unfold valid_threshold; lia.
Qed.

Lemma d_bit_flip_is_valid d k lo G : valid_low lo -> valid_flip G -> valid (d_bit_flip d k lo G).
Proof.
  intros HL HG. constructor; simpl; auto. intros t It. apply in_map_iff in It as [j [<- _]]. unfold asks.
  rewrite map_length, seq_length. split; [reflexivity|]. apply Forall_forall. intros T IT.
  apply in_map_iff in IT as [c [<- _]]. destruct HL. unfold valid_threshold. destruct (Nat.eqb c j); lia.
Qed.

Lemma nth_asks j k lo c : (c < k)%nat -> nth c (asks j k lo) 0%Z = if Nat.eqb c j then (SCALE - lo)%Z else lo.
Proof.
  intros H. unfold asks. set (f := fun c => if Nat.eqb c j then (SCALE - lo)%Z else lo).
  rewrite (nth_indep _ 0%Z (f 0%nat)) by (now rewrite map_length, seq_length).
  rewrite map_nth, seq_nth by assumption. reflexivity.
Qed.

(** Only two bits differ between two values, and no more than there are. *)
Lemma d_bit_flip_changes d k lo G c c' :
  (c < k)%nat -> (c' < k)%nat -> (changed (d_bit_flip d k lo G) c c' <= Nat.min 2 d)%nat.
Proof.
  intros B B'. unfold changed. cbn [d_bit_flip tables]. rewrite map_map.
  assert (E : forall j, (moved c c' (asks j k lo) <= (if Nat.eqb j c then 1 else 0) + (if Nat.eqb j c' then 1 else 0))%nat).
  { intros j. unfold moved. rewrite !nth_asks, (Nat.eqb_sym c), (Nat.eqb_sym c') by assumption.
    destruct (Nat.eqb j c), (Nat.eqb j c'); try (destruct (_ =? _)%Z; lia). rewrite Z.eqb_refl. lia. }
  apply Nat.min_glb.
  - pose proof (count_once c (seq 0 d) (seq_NoDup d 0)) as C1. pose proof (count_once c' (seq 0 d) (seq_NoDup d 0)) as C2.
    enough (list_sum (map (fun j => moved c c' (asks j k lo)) (seq 0 d))
            <= list_sum (map (fun j => if Nat.eqb j c then 1 else 0) (seq 0 d))
               + list_sum (map (fun j => if Nat.eqb j c' then 1 else 0) (seq 0 d)))%nat by lia.
    rewrite <- list_sum_plus. clear C1 C2. generalize (seq 0 d). intros l.
    induction l as [|j l IH]; [simpl; lia|]. specialize (E j). unfold list_sum in *. cbn [map fold_right]. lia.
  - eapply Nat.le_trans; [apply (list_sum_le _ _ 1)|rewrite seq_length; lia].
    intros j _. unfold moved. destruct (_ =? _)%Z; lia.
Qed.

Lemma d_bit_flip_special d k lo G t : In t (tables (d_bit_flip d k lo G)) -> one_special t.
Proof.
  simpl. intros It. apply in_map_iff in It as [j [<- _]]. exists j. unfold asks at 1 2. rewrite map_length, seq_length.
  intros c c' N N' B B'. rewrite !nth_asks by assumption.
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

  Lemma gamma_half : 0 <= gamma <= 1 / 2.
  Proof. pose proof (share_flip _ (valid_m_flip m m_valid)). lra. Qed.

  (** T rounds, any two values that never change: eps_T. *)
  Theorem constant_device T : bounds (INR changed_bits * h_of_rounds h gamma T) (of_values (held_for T) m).
  Proof.
    apply loss_of_constant_device; auto using h_of_rounds_nonneg, gamma_half.
    apply formula_of_rounds; auto using (valid_m_low m m_valid), (valid_m_flip m m_valid).
  Qed.

  (** One round, any two values: eps' = h' or 2h'. *)
  Theorem one_round : bounds (INR changed_bits * h_of_rounds h gamma 1) (of_values one_round m).
  Proof. exact (constant_device 1). Qed.

  (** All rounds together: h (or 2h). *)
  Theorem constant_device_forever T : bounds (INR changed_bits * h) (of_values (held_for T) m).
  Proof.
    apply loss_of_constant_device; auto.
    apply formula_of_all_rounds; auto using (valid_m_low m m_valid), (valid_m_flip m m_valid).
  Qed.

  Lemma Lambda_nonneg : 0 < gamma -> 0 <= Lambda.
  Proof.
    intros G0. unfold Lambda. pose proof gamma_half. rewrite <- ln_1. apply ln_le'; [lra|].
    apply (Rmult_le_reg_r gamma); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.

  (** Histories that differ in delta rounds: delta d Lambda. *)
  Theorem moved_change delta : 0 < gamma -> bounds (INR delta * INR d * Lambda) (of_values (fun V => differ_in delta) m).
  Proof.
    intros G0. apply loss_of_moved_change; auto using Lambda_nonneg.
    apply hides_of_formula; [apply (valid_m_flip m m_valid) | lra].
  Qed.

  (** Any two histories of R rounds: d min( min(c, R) ln(e^h + 1) + floor(R/2) Lambda, R Lambda ). *)
  Theorem any_two_histories R : 0 < gamma ->
    bounds (INR d * Rmin (INR (Nat.min (classes m) R) * ln (exp h + 1) + INR (R / 2) * Lambda) (INR R * Lambda))
           (of_values (any_two R) m).
  Proof.
    intros G0. apply loss_of_any_histories; auto using Lambda_nonneg, memo_odds_of_coin.
    - rewrite <- ln_1. apply ln_le'; [lra|]. pose proof (exp_pos h); lra.
    - apply hides_of_formula; [apply (valid_m_flip m m_valid) | lra].
  Qed.

  (** Devices whose rounded values repeat in one pattern of width w: min(changed_bits w, 2d) h for a histogram. *)
  Theorem same_pattern_histogram cs cs' :
    (forall t, In t (tables m) -> one_special t) -> same_pattern cs cs' -> within m cs -> within m cs' ->
    loss (INR (Nat.min (changed_bits * width cs) (2 * d)) * h) (answers_of_classes m cs) (answers_of_classes m cs').
  Proof. intros. now apply loss_by_width_of_histogram. Qed.
End Claims.
