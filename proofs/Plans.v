(** * Plans that ask all their metrics or some, in one window or forever

    A device's secret picks what it answers: metrics once, or a round and metrics in each window. The pick knows no value,
    so condition on it; what is left is the sum over the metrics asked, and the worst pick has the largest sum.     *)

From Coq Require Import Reals ZArith QArith Qreals List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Joint.
Import ListNotations.
Open Scope R_scope.

Definition sum_of (qs : list Q) : Q := fold_right Qplus 0%Q qs.

(** The most that k asked metrics can cost, for every way to spread them over blocks: [nth j] of the list for j <= k. *)
Definition larger (a b : Q) : Q := if Qle_bool a b then b else a.
Fixpoint best (costs : list (list Q)) (k : nat) : list Q :=
  match costs with
  | [] => repeat 0%Q (S k)
  | c :: rest =>
      let known := best rest k in
      map (fun j => fold_right (fun s most => larger (nth s c 0 + nth (j - s) known 0)%Q most) 0%Q (seq 0 (S j))) (seq 0 (S k))
  end.

Lemma larger_l a b : (a <= larger a b)%Q.
Proof. unfold larger. destruct (Qle_bool a b) eqn:H; [now apply Qle_bool_iff | apply Qle_refl]. Qed.

Lemma larger_r a b : (b <= larger a b)%Q.
Proof.
  unfold larger. destruct (Qle_bool a b) eqn:H; [apply Qle_refl|].
  apply Qnot_lt_le. intros L. apply Qlt_le_weak, Qle_bool_iff in L. congruence.
Qed.

Lemma best_sound costs ns k j :
  length ns = length costs -> (list_sum ns <= j)%nat -> (j <= k)%nat ->
  (sum_of (map (fun cn => nth (snd cn) (fst cn) 0) (combine costs ns)) <= nth j (best costs k) 0)%Q.
Proof.
  revert ns j. induction costs as [|c costs IH]; intros [|n ns] j L S J; try discriminate.
  - simpl combine. change (sum_of (map _ [])) with 0%Q. unfold best.
    assert (In (nth j (repeat 0%Q (Datatypes.S k)) 0%Q) (repeat 0%Q (Datatypes.S k))) by (apply nth_In; rewrite repeat_length; lia).
    apply repeat_spec in H. rewrite H. apply Qle_refl.
  - change (list_sum (n :: ns)) with (n + list_sum ns)%nat in S. simpl in L.
    cbn [combine map best]. cbv zeta.
    set (g := fun j => fold_right (fun s most => larger (nth s c 0 + nth (j - s) (best costs k) 0)%Q most) 0%Q (seq 0 (Datatypes.S j))).
    assert (Eg : nth j (map g (seq 0 (Datatypes.S k))) 0%Q = g j).
    { rewrite (nth_indep _ 0%Q (g 0%nat)) by (rewrite map_length, seq_length; lia).
      rewrite (map_nth g), seq_nth by lia. reflexivity. }
    rewrite Eg. unfold g.
    apply Qle_trans with (nth n c 0 + nth (j - n) (best costs k) 0)%Q.
    + unfold sum_of. cbn [fold_right fst snd]. apply Qplus_le_r. apply IH; lia.
    + assert (I : In n (seq 0 (Datatypes.S j))) by (apply in_seq; lia). revert I. generalize (seq 0 (Datatypes.S j)).
      induction l as [|s l IHl]; [contradiction|]. intros [->|I]; simpl; [apply larger_l|].
      eapply Qle_trans; [now apply IHl | apply larger_r].
Qed.

(** Costs of a block, by the number of its metrics that are asked, up to k. *)
Definition block_costs (k : nat) (b : block) (costs : list Q) : Prop :=
  forall rows, b rows -> (asked rows <= k)%nat ->
  loss (Q2R (nth (asked rows) costs 0%Q)) (each (map (sent_if_asked sends_x) rows)) (each (map (sent_if_asked sends_y) rows)).

Lemma loss_of_blocks k (bs : list (block * list Q)) rowss :
  Forall2 (fun bc rows => block_costs k (fst bc) (snd bc) /\ fst bc rows) bs rowss ->
  (list_sum (map asked rowss) <= k)%nat ->
  loss (Q2R (nth k (best (map snd bs) k) 0%Q))
       (each (map (fun rs => each (map (sent_if_asked sends_x) rs)) rowss))
       (each (map (fun rs => each (map (sent_if_asked sends_y) rs)) rowss)).
Proof.
  intros H S. assert (L : length (map asked rowss) = length (map snd bs)).
  { rewrite !map_length. clear - H. induction H; simpl; congruence. }
  eapply loss_weaken; [apply Qle_Rle, (best_sound _ _ _ k L S (Nat.le_refl k))|]. clear L.
  induction H as [|[b costs] rows bs rowss [HC HB] H IH]; simpl in *.
  - unfold Q2R. simpl. rewrite Rmult_0_l. apply loss_0.
  - unfold sum_of. cbn [fold_right map combine fst snd]. rewrite Q2R_plus. apply loss_bind; [apply HC; [assumption | lia]|].
    intros a. apply loss_after, IH. lia.
Qed.

(** Claim (loss_of_asked; loss_of_window): the largest sum over all sets of at most k metrics. *)
Theorem loss_of_asked (bs : list (block * list Q)) k (L : Q) :
  Forall (fun bc => block_costs k (fst bc) (snd bc)) bs -> (nth k (best (map snd bs) k) 0 <= L)%Q ->
  report_claim (map fst bs) k (Q2R L).
Proof.
  intros HC HL Pick pick rows H. apply loss_given. intros p. apply loss_after. destruct (H p) as [HB HS].
  eapply loss_weaken; [apply Qle_Rle, HL|]. apply loss_of_blocks; [|assumption]. revert HB. generalize (rows p). clear H HS HL.
  induction HC as [|bc bs Hbc HC IH]; intros l HB; inversion_clear HB; constructor; auto.
Qed.

(** A metric alone. *)
Lemma costs_of_alone k c (q : Q) : bounds (Q2R q) c -> block_costs k (alone c) [0%Q; q].
Proof.
  intros H rows [r [-> Hr]] _. unfold asked. simpl. apply loss_after. unfold sent_if_asked. destruct (is_asked r); simpl.
  - now apply H.
  - unfold Q2R. simpl. rewrite Rmult_0_l. apply loss_0.
Qed.

(** Members of a group: a report about some is one about fewer, with nothing said of the others. *)
Fixpoint filled {A} (ms : list member) (reports : list (list A)) : list (list A) :=
  match ms with
  | [] => []
  | t :: rest => if member_asked t then hd [] reports :: filled rest (tl reports) else [] :: filled rest reports
  end.

Lemma E_of_chosen (X : row -> program (list (list bool))) n ms f :
  E (each (map (sent_if_asked X) (map (row_of n) ms))) f
  = E (each (map (fun t => X (row_of n t)) (filter member_asked ms))) (fun l => f (filled ms l)).
Proof.
  revert f. induction ms as [|t ms IH]; intros f; [reflexivity|]. cbn [map]. rewrite E_each_cons.
  unfold sent_if_asked at 1. cbn [is_asked row_of filter filled]. destruct (member_asked t).
  - cbn [map]. rewrite E_each_cons. apply E_ext. intros r. now rewrite IH.
  - cbn [E]. now rewrite IH.
Qed.

Lemma within_chosen limit ms : within_limit limit ms -> within_limit limit (filter member_asked ms).
Proof.
  intros [W [SX SY]]. assert (K : forall f, (forall t, In t ms -> (0 <= f t)%Z) ->
    (total_of (map f (filter member_asked ms)) <= total_of (map f ms))%Z).
  { clear. intros f H. induction ms as [|t ms IH]; simpl; [lia|]. specialize (IH (fun u Hu => H u (or_intror Hu))).
    pose proof (H t (or_introl eq_refl)). destruct (member_asked t); simpl; lia. }
  split; [intros t I; apply filter_In in I; now apply W|].
  pose proof (K value_x (fun t I => proj1 (proj1 (W t I)))). pose proof (K value_y (fun t I => proj1 (proj2 (W t I)))). lia.
Qed.

Lemma asked_of_members n ms : asked (map (row_of n) ms) = length (filter member_asked ms).
Proof. unfold asked. induction ms as [|t ms IH]; simpl; [reflexivity|]. destruct (member_asked t); simpl; auto. Qed.

(** It costs what a group of those asked costs. *)
Lemma costs_of_group k cs limit n costs :
  (forall ms, map counts ms = cs -> within_limit limit ms -> (length (filter member_asked ms) <= k)%nat ->
     group_loss (Q2R (nth (length (filter member_asked ms)) costs 0%Q)) n (filter member_asked ms)) ->
  block_costs k (group cs limit n) costs.
Proof.
  intros H rows [ms [E [W ->]]] A. rewrite asked_of_members in *. intros f F. rewrite !E_of_chosen. now apply H.
Qed.

(** And no more than the whole group: that is a report with less said. *)
Fixpoint unsaid {A} (ms : list member) (reports : list (list A)) : list (list A) :=
  match ms, reports with
  | t :: rest, r :: rs => (if member_asked t then r else []) :: unsaid rest rs
  | _, _ => []
  end.

Lemma costs_of_whole_group k cs limit n (q : Q) :
  (forall ms, map counts ms = cs -> within_limit limit ms -> group_loss (Q2R q) n ms) ->
  block_costs k (group cs limit n) (repeat q (S k)).
Proof.
  intros H rows [ms [Ec [W ->]]] A. rewrite nth_indep with (d' := q) by (rewrite repeat_length; lia).
  rewrite nth_repeat. intros f F.
  assert (U : forall X f, E (each (map (sent_if_asked X) (map (row_of n) ms))) f
              = E (each (map (fun t => X (row_of n t)) ms)) (fun l => f (unsaid ms l))).
  { clear. intros X. induction ms as [|t ms IH]; intros f; [reflexivity|]. cbn [map]. rewrite !E_each_cons.
    unfold sent_if_asked at 1. cbn [is_asked row_of]. destruct (member_asked t) eqn:T.
    - apply E_ext. intros r. rewrite IH. simpl. now rewrite T.
    - cbn [E]. rewrite IH. rewrite <- (E_const (X (row_of n t))) at 1. apply E_ext. intros r. simpl. now rewrite T. }
  rewrite !U. apply H; auto.
Qed.
