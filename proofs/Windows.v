(** * Sampled answers: one fresh report per window

    In each window a device picks a round and some metrics, by words that know no value, and answers in that round
    only, with words that serve no other window and without flips.                                               *)

From Coq Require Import Reals ZArith QArith Qreals List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Joint.
Import ListNotations.
Open Scope R_scope.

Section OneWindow.
  Context {Pick Values Report : Type} (pick : program Pick) (round_of : Pick -> nat).
  Variable report : Pick -> Values -> program Report.

  (** Claim (loss_of_window): any two histories of the window's values. *)
  Theorem loss_of_window L history history' :
    (forall p, loss L (report p (history (round_of p))) (report p (history' (round_of p)))) ->
    loss L (window pick round_of report history) (window pick round_of report history').
  Proof. intros H. unfold window. apply loss_given. intros p. apply loss_after, H. Qed.

  (** Windows whose values differ; the values of the others are the same in both cases. *)
  Record two_windows := {
    values_x : nat -> Values;
    values_y : nat -> Values;
    differ : bool;
    alike : differ = false -> values_x = values_y
  }.

  Definition differing_windows (ws : list two_windows) : nat :=
    list_sum (map (fun w => if differ w then 1%nat else 0%nat) ws).

  (** Any number of windows, of which V have different values: V . L. *)
  Theorem loss_of_windows L (ws : list two_windows) :
    0 <= L -> (forall p x y, loss L (report p x) (report p y)) ->
    loss (INR (differing_windows ws) * L)
         (each (map (fun w => window pick round_of report (values_x w)) ws))
         (each (map (fun w => window pick round_of report (values_y w)) ws)).
  Proof.
    intros HL H. unfold differing_windows. rewrite <- total_count. apply loss_each_map. intros w _.
    destruct (differ w) eqn:D; simpl.
    - rewrite Rmult_1_l. apply loss_of_window. auto.
    - rewrite Rmult_0_l, (alike w D). apply loss_0.
  Qed.
End OneWindow.

(** R rounds in a row touch at most ceil((R-1)/W) + 1 windows of W rounds, wherever they begin. *)
Theorem windows_touched first rounds W :
  (0 < W)%Z -> (1 <= rounds)%Z ->
  ((first + rounds - 1) / W - first / W + 1 <= (rounds - 1 + W - 1) / W + 1)%Z.
Proof.
  intros HW HR.
  pose proof (Z.div_mod first W) as D. pose proof (Z.mod_pos_bound first W) as M.
  set (q := (first / W)%Z) in *. set (r := (first mod W)%Z) in *.
  assert ((first + rounds - 1) / W = q + (r + rounds - 1) / W)%Z as ->.
  { replace (first + rounds - 1)%Z with (q * W + (r + rounds - 1))%Z by lia.
    rewrite Z.div_add_l by lia. reflexivity. }
  assert ((r + rounds - 1) / W <= (rounds - 1 + W - 1) / W)%Z by (apply Z.div_le_mono; lia).
  lia.
Qed.

(** ** A report about some of the metrics *)

(** Costs of a block, by the number of its metrics that are asked. *)
Definition block_costs (b : block) (costs : list Q) : Prop :=
  forall mask xs ys, length mask = length (metrics b) -> allowed b xs -> allowed b ys ->
  loss (Q2R (nth (asked mask) costs 0%Q)) (block_report b mask xs) (block_report b mask ys).

Definition sum_of (qs : list Q) : Q := fold_right Qplus 0%Q qs.

Lemma loss_of_report (bs : list (block * list Q)) masks xss yss :
  Forall (fun bc => block_costs (fst bc) (snd bc)) bs ->
  Forall2 (fun b mask => length mask = length (metrics b)) (map fst bs) masks ->
  Forall2 allowed (map fst bs) xss -> Forall2 allowed (map fst bs) yss ->
  loss (Q2R (sum_of (map (fun cm => nth (asked (snd cm)) (snd (fst cm)) 0%Q) (combine bs masks))))
       (sampled_report (map fst bs) masks xss) (sampled_report (map fst bs) masks yss).
Proof.
  intros HC. revert masks xss yss. induction HC as [|bc bs Hb HC IH]; intros masks xss yss HM HX HY.
  - simpl. unfold Q2R. simpl. rewrite Rmult_0_l. apply loss_0.
  - inversion_clear HM as [|? mask ? masks' M1 M2]. inversion_clear HX as [|? xs ? xss' X1 X2].
    inversion_clear HY as [|? ys ? yss' Y1 Y2]. unfold sampled_report, sum_of. simpl. rewrite Q2R_plus.
    apply loss_bind; [now apply Hb|]. intros a. apply loss_after. now apply IH.
Qed.

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

(** Claim (window): the largest sum over all sets of at most k metrics. *)
Theorem loss_of_sampled_plan (bs : list (block * list Q)) k L :
  Forall (fun bc => block_costs (fst bc) (snd bc)) bs -> (nth k (best (map snd bs) k) 0 <= L)%Q ->
  window_claim (map fst bs) k L.
Proof.
  intros HC HL Pick pick round_of masks h h' HM Hh Hh'. apply loss_of_window. intros p. destruct (HM p) as [M1 M2].
  eapply loss_weaken; [|now apply loss_of_report]. apply Qle_Rle. eapply Qle_trans; [|exact HL].
  assert (Lm : length (masks p) = length bs).
  { rewrite <- (map_length fst bs). clear - M1. induction M1; simpl; congruence. }
  eapply Qle_trans; [|apply (best_sound (map snd bs) (map asked (masks p)) k k); rewrite ?map_length; auto; lia].
  clear - Lm. revert Lm. generalize (masks p). induction bs as [|b bs IH]; intros [|m l] Lm; try discriminate.
  simpl. apply Qplus_le_r. apply IH. simpl in Lm. lia.
Qed.

(** A metric alone. *)
Definition alone (m : metric) : block := {| metrics := [m]; allowed := fun xs => length xs = 1%nat |}.

Lemma costs_of_alone m (q : Q) :
  (forall x y, loss (Q2R q) (answers m [x]) (answers m [y])) -> block_costs (alone m) [0%Q; q].
Proof.
  intros H [|a [|]] [|x [|]] [|y [|]] L X Y; try discriminate. unfold block_report. cbn [alone metrics combine map each].
  apply loss_after. destruct a; [apply H|]. unfold if_asked, Q2R. simpl. rewrite Rmult_0_l. apply loss_0.
Qed.

(** Counters alike that share a limit: s of them lose what a group of s loses. *)
Definition alike_block (c : counter) (t : nat) (limit : Z) : block :=
  {| metrics := repeat (mean_of c) t; allowed := within_limit limit (repeat c t) |}.

Fixpoint chosen {A} (mask : list bool) (xs : list A) : list A :=
  match mask, xs with
  | a :: mask', x :: xs' => if a then x :: chosen mask' xs' else chosen mask' xs'
  | _, _ => []
  end.

Fixpoint filled {A} (mask : list bool) (gap : A) (xs : list A) : list A :=
  match mask with
  | [] => []
  | true :: mask' => hd gap xs :: filled mask' gap (tl xs)
  | false :: mask' => gap :: filled mask' gap xs
  end.

(** A report of some is the report of a smaller group, with zeros filled in. *)
Lemma E_of_chosen m t mask xs f :
  length mask = t -> length xs = t ->
  E (each (map (fun k => if_asked (fst k) (fst (snd k)) (snd (snd k))) (combine (repeat m t) (combine mask xs)))) f
  = E (each (map (fun x => answers m [x]) (chosen mask xs))) (fun l => f (filled mask (map (fun _ => [false]) (tables m)) l)).
Proof.
  revert mask xs f. induction t as [|t IH]; intros [|a mask] [|x xs] f Lm Lx; try discriminate; [reflexivity|].
  cbn [repeat combine map]. rewrite E_each_cons. cbn [fst snd chosen]. unfold if_asked at 1. destruct a.
  - cbn [map]. rewrite E_each_cons. apply E_ext. intros r. rewrite IH by (simpl in *; lia). reflexivity.
  - cbn [E]. rewrite IH by (simpl in *; lia). reflexivity.
Qed.

Lemma chosen_within limit c t mask xs :
  length mask = t -> within_limit limit (repeat c t) xs -> within_limit limit (repeat c (asked mask)) (chosen mask xs).
Proof.
  intros Lm [W S].
  enough (H : Forall2 (fun c x => (0 <= x <= top c)%Z) (repeat c (asked mask)) (chosen mask xs) /\
              (fold_right Z.add 0 (chosen mask xs) <= fold_right Z.add 0 xs)%Z).
  { destruct H. split; [assumption | lia]. }
  clear S. revert mask Lm xs W. induction t as [|t IH]; intros [|a mask] Lm xs W; try discriminate; simpl in W.
  - inversion_clear W. split; [constructor | simpl; lia].
  - inversion_clear W as [|? x ? xs' Hx W']. destruct (IH mask ltac:(simpl in *; lia) xs' W') as [I1 I2].
    unfold asked in *. destruct a; simpl; split; try assumption; try lia. now constructor.
Qed.

Lemma costs_of_alike c t limit costs :
  (forall s, (s <= t)%nat -> forall xs ys, within_limit limit (repeat c s) xs -> within_limit limit (repeat c s) ys ->
     loss (Q2R (nth s costs 0%Q)) (answers_of_group (repeat c s) (map (fun x => [x]) xs))
                                  (answers_of_group (repeat c s) (map (fun y => [y]) ys))) ->
  block_costs (alike_block c t limit) costs.
Proof.
  intros H mask xs ys Lm Wx Wy. simpl in Lm, Wx, Wy. rewrite repeat_length in Lm.
  assert (As : (asked mask <= t)%nat) by (unfold asked; rewrite <- Lm; clear; induction mask as [|[]]; simpl; lia).
  pose proof (H _ As) as G.
  specialize (G _ _ (chosen_within _ _ _ _ _ Lm Wx) (chosen_within _ _ _ _ _ Lm Wy)).
  pose proof (within_length _ _ _ Wx) as Lx. pose proof (within_length _ _ _ Wy) as Ly. rewrite repeat_length in Lx, Ly.
  assert (same : forall zs, length zs = t -> answers_of_group (repeat c (asked mask)) (map (fun z => [z]) (chosen mask zs))
                 = each (map (fun z => answers (mean_of c) [z]) (chosen mask zs))).
  { clear - Lm. intros zs Lz. unfold answers_of_group. f_equal. revert t Lm zs Lz. unfold asked.
    induction mask as [|a mask IH]; intros t Lm [|z zs] Lz; simpl in *; subst; try discriminate; [reflexivity|].
    destruct a; simpl; [f_equal|]; eapply IH; eauto; lia. }
  rewrite !same in G by assumption. intros f F. unfold block_report. simpl.
  rewrite !E_of_chosen by assumption. now apply G.
Qed.
