(** * A device that remembers its answers

    What src/reticent/device/answers.py does with one metric over a history of rounds, given the public cohort. A
    class has one threshold per answer bit. All words are drawn once and kept: an alpha, and for each answer bit one
    word per class (the memo) and one per round (the flip).                                                        *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits.
Import ListNotations.
Open Scope R_scope.

(** ** Words of a table are independent *)

Fixpoint put (c : nat) (u : Z) (l : list Z) : list Z :=
  match l, c with
  | [], _ => []
  | _ :: r, O => u :: r
  | v :: r, S k => v :: put k u r
  end.

Lemma nth_put_same c u l d : (c < length l)%nat -> nth c (put c u l) d = u.
Proof. revert c. induction l as [|v l IH]; intros [|c] H; simpl in *; try lia; auto. apply IH. lia. Qed.

Lemma nth_put_other c c' u l d : c <> c' -> nth c' (put c u l) d = nth c' l d.
Proof.
  revert c c'. induction l as [|v l IH]; intros [|c] [|c'] H; simpl; auto; try lia.
Qed.

(** A word of a table may be drawn anew. *)
Lemma E_redraw n c f :
  (c < n)%nat -> E (draws n) f = mean (fun u => E (draws n) (fun l => f (put c u l))).
Proof.
  revert c f. induction n as [|n IH]; intros c f H; [lia|].
  rewrite E_draws_S. destruct c as [|c].
  - apply mean_ext. intros u _. rewrite E_draws_S. simpl.
    symmetry. apply mean_const.
  - rewrite (mean_ext (fun u => E (draws (S n)) _)
                      (fun u => mean (fun v => E (draws n) (fun us => f (v :: put c u us))))).
    + rewrite mean_swap. apply mean_ext. intros v _.
      apply (IH c (fun us => f (v :: us))). lia.
    + intros u _. now rewrite E_draws_S.
Qed.

Lemma E_draws_ext n f g : (forall us, length us = n -> f us = g us) -> E (draws n) f = E (draws n) g.
Proof.
  revert f g. induction n as [|n IH]; intros f g H; [apply H; reflexivity|].
  rewrite !E_draws_S. apply mean_ext. intros u _. apply IH. intros us L. apply H. simpl. lia.
Qed.

(** Words at different places of a table are as good as fresh ones. *)
Lemma E_draws_distinct n us F :
  NoDup us -> (forall c, In c us -> (c < n)%nat) ->
  E (draws n) (fun memo => F (map (fun c => nth c memo 0%Z) us)) = E (draws (length us)) F.
Proof.
  revert F. induction us as [|c us IH]; intros F ND B; simpl length.
  - simpl. apply E_const.
  - inversion_clear ND as [|? ? NI ND'].
    rewrite E_draws_S.
    rewrite (E_redraw n c) by (apply B; simpl; auto).
    apply mean_ext. intros u _.
    rewrite <- (IH (fun ws => F (u :: ws))) by (auto with datatypes).
    apply E_draws_ext. intros memo L. f_equal. simpl. f_equal.
    + apply nth_put_same. rewrite L. apply B. simpl. auto.
    + apply map_ext_in. intros c' Hc'. apply nth_put_other. intros ->. contradiction.
Qed.

Lemma NoDup_map_in {A B} (f : A -> B) l :
  (forall a b, In a l -> In b l -> f a = f b -> a = b) -> NoDup l -> NoDup (map f l).
Proof.
  intros H ND. induction ND as [|a l NI ND IH]; simpl; constructor.
  - intros I. apply in_map_iff in I as [b [E I]]. apply H in E; simpl; auto. now subst.
  - apply IH. intros. apply H; simpl; auto.
Qed.

(** ** A device that stays: one remembered bit, seen n times *)

Lemma E_column_constant table G c n f :
  (c < length table)%nat ->
  E (column table G (repeat c n)) f = E (constant_bit (nth c table 0%Z) G n) f.
Proof.
  intros H. unfold column, constant_bit. rewrite !E_bind.
  assert (R : forall memo, map (fun c => (nth c memo 0 <? nth c table 0)%Z) (repeat c n)
              = repeat (nth c memo 0 <? nth c table 0)%Z n).
  { intros memo. induction n as [|n IH]; simpl; [reflexivity | now rewrite IH]. }
  pose proof (E_draws_distinct (length table) [c]
                (fun ws => E (sent G (repeat (nth 0 ws 0 <? nth c table 0)%Z n)) f)) as D.
  simpl length in D. rewrite E_draws_S in D. simpl in D.
  unfold coin. simpl. rewrite <- D.
  - apply E_ext. intros memo. now rewrite R.
  - constructor; [auto | constructor].
  - intros c' [->|[]]. assumption.
Qed.

(** How many remembered bits have another law in class [c'] than in class [c]. *)
Definition moved (c c' : nat) (table : list Z) : nat := if (nth c table 0 =? nth c' table 0)%Z then 0 else 1.
Definition changed (m : metric) (c c' : nat) : nat := list_sum (map (moved c c') (tables m)).

Lemma total_count {A} (l : list A) (n : A -> nat) L :
  total l (fun a => INR (n a) * L) = INR (list_sum (map n l)) * L.
Proof.
  induction l as [|a l IH]; [simpl; lra|].
  change (list_sum (map n (a :: l))) with (n a + list_sum (map n l))%nat.
  rewrite plus_INR. simpl. rewrite IH. lra.
Qed.

Lemma valid_nth m t c : valid m -> In t (tables m) -> (c < classes m)%nat -> valid_threshold (low m) (nth c t 0%Z).
Proof.
  intros V I H. destruct (valid_m_tables m V t I) as [HL HF]. rewrite Forall_forall in HF. apply HF, nth_In. lia.
Qed.

(** What holds for classes holds for values, whatever the secret makes of them: condition on it. *)
Lemma by_classes m L (related : forall V, list V -> list V -> Prop) :
  (forall V W (f : V -> W) xs ys, related V xs ys -> related W (map f xs) (map f ys)) ->
  (forall cs cs', related nat cs cs' -> within m cs -> within m cs' ->
     loss L (answers_of_classes m cs) (answers_of_classes m cs')) ->
  bounds L (of_values related m).
Proof.
  intros HM H X Y [S [V [secret [class_of [xs [ys [HC [HR [-> ->]]]]]]]]]. apply loss_given. intros s.
  apply H; [now apply HM| |]; intros c I; apply in_map_iff in I as [v [<- _]]; apply HC.
Qed.

Lemma held_for_map n V W (f : V -> W) xs ys : held_for n V xs ys -> held_for n W (map f xs) (map f ys).
Proof.
  intros [x [y [-> ->]]]. exists (f x), (f y). split; clear; (induction n as [|n IH]; simpl; [reflexivity | now rewrite IH]).
Qed.

(** Claim (loss_of_constant_device; n = 1: loss_per_round): every pair of values, each held through n rounds. *)
Theorem loss_of_constant_device m bits L n :
  valid m -> 0 <= L -> covers (low m) (flip m) n L ->
  (forall c c', (c < classes m)%nat -> (c' < classes m)%nat -> (changed m c c' <= bits)%nat) ->
  bounds (INR bits * L) (of_values (held_for n) m).
Proof.
  intros V HL HW HC. apply by_classes; [intros; now apply held_for_map|].
  intros cs cs' [c [c' [-> ->]]] B B'. destruct n as [|n].
  { apply loss_weaken with 0; [apply Rmult_le_pos; [apply pos_INR | assumption] | apply loss_0]. }
  assert (Hc : (c < classes m)%nat) by (apply B; simpl; auto).
  assert (Hc' : (c' < classes m)%nat) by (apply B'; simpl; auto).
  apply loss_weaken with (INR (changed m c c') * L).
  { apply Rmult_le_compat_r; [assumption|]. apply le_INR. now apply HC. }
  unfold changed. rewrite <- total_count. apply loss_each_map.
  intros t It. pose proof (proj1 (valid_m_tables m V t It)) as Len.
  apply loss_law with (constant_bit (nth c t 0%Z) (flip m) (S n)) (constant_bit (nth c' t 0%Z) (flip m) (S n));
    try (intros; apply E_column_constant; lia).
  unfold moved. destruct (Z.eqb_spec (nth c t 0%Z) (nth c' t 0%Z)) as [->|NE]; simpl INR.
  - rewrite Rmult_0_l. apply loss_0.
  - rewrite Rmult_1_l. apply loss_of_constant_bit with (low m); auto using valid_m_low, valid_m_flip, valid_nth.
Qed.

(** ** Devices of one pattern (Theorem 4) *)

Fixpoint place (c : nat) (us : list nat) : nat :=
  match us with
  | [] => O
  | u :: r => if Nat.eqb u c then O else S (place c r)
  end.

Lemma nth_place {A} (f : nat -> A) c us d : In c us -> nth (place c us) (map f us) d = f c.
Proof.
  induction us as [|u us IH]; intros H; [destruct H|]. simpl.
  destruct (Nat.eqb_spec u c) as [->|NE]; [reflexivity|].
  simpl. apply IH. destruct H; [contradiction | assumption].
Qed.

Lemma place_below c us : In c us -> (place c us < length us)%nat.
Proof.
  induction us as [|u us IH]; intros H; [destruct H|]. simpl.
  destruct (Nat.eqb_spec u c) as [->|NE]; [lia|]. destruct H as [->|H]; [contradiction|]. specialize (IH H). lia.
Qed.

Definition bits_below (ws ts : list Z) : list bool := map (fun p => (fst p <? snd p)%Z) (combine ws ts).

Lemma E_coins ts f :
  E (each (map coin ts)) f = E (draws (length ts)) (fun ws => f (bits_below ws ts)).
Proof.
  revert f. induction ts as [|t ts IH]; intros f; [reflexivity|].
  change (map coin (t :: ts)) with (coin t :: map coin ts). rewrite E_each_cons.
  simpl length. rewrite E_draws_S. unfold coin. simpl.
  apply mean_ext. intros u _. rewrite IH. reflexivity.
Qed.

(** The remembered bits of the classes that are used, then the flips: the same function of them for all devices of
    one pattern. *)
Definition by_pattern (G : Z) (thresholds : list Z) (us cs : list nat) : program (list bool) :=
  remembered <- each (map coin thresholds) ;;
  sent G (map (fun c => nth (place c us) remembered false) cs).

Lemma E_column_by_pattern table G rename us cs f :
  NoDup (map rename us) -> (forall u, In u us -> (rename u < length table)%nat) ->
  (forall c, In c cs -> In c us) ->
  E (column table G (map rename cs)) f
  = E (by_pattern G (map (fun u => nth (rename u) table 0%Z) us) us cs) f.
Proof.
  intros ND B S. unfold column, by_pattern. rewrite !E_bind, E_coins, map_length.
  rewrite <- (map_length rename us).
  rewrite <- (E_draws_distinct (length table)); [|assumption|].
  - apply E_ext. intros memo. f_equal. f_equal. rewrite map_map.
    apply map_ext_in. intros c Hc. specialize (S c Hc).
    unfold bits_below. rewrite map_map.
    assert (C : forall l : list nat, combine (map (fun x => nth (rename x) memo 0%Z) l)
                                (map (fun x => nth (rename x) table 0%Z) l)
                = map (fun x => (nth (rename x) memo 0%Z, nth (rename x) table 0%Z)) l).
    { induction l as [|x l IH]; simpl; [reflexivity | now rewrite IH]. }
    rewrite C, map_map, nth_place by assumption. reflexivity.
  - intros c Hc. apply in_map_iff in Hc as [u [<- Hu]]. auto.
Qed.

(** d bounds what one remembered bit tells about a class with threshold T against one with T'. *)
Definition between (d : R) (T T' : Z) : Prop :=
  IZR T <= exp d * IZR T' /\ IZR (SCALE - T) <= exp d * IZR (SCALE - T').

Lemma loss_of_coin d T T' :
  (0 <= T <= SCALE)%Z -> (0 <= T' <= SCALE)%Z -> between d T T' -> loss d (coin T) (coin T').
Proof.
  intros HT HT' [H1 H2] f F. rewrite !E_coin by assumption. apply by_shares in H1, H2. rewrite !share_rest in H2.
  pose proof (Rmult_le_compat_r _ _ _ (F true) H1). pose proof (Rmult_le_compat_r _ _ _ (F false) H2). lra.
Qed.

Theorem loss_of_same_pattern_column table G D rename us cs lo :
  valid_low lo -> Forall (valid_threshold lo) table ->
  NoDup us -> NoDup (map rename us) -> (forall c, In c cs -> In c us) ->
  (forall u, In u us -> (u < length table)%nat /\ (rename u < length table)%nat) ->
  (forall u, In u us -> between (D u (rename u)) (nth u table 0%Z) (nth (rename u) table 0%Z)) ->
  loss (total us (fun u => D u (rename u))) (column table G cs) (column table G (map rename cs)).
Proof.
  intros HL HF ND ND' Hcs HB HD. rewrite Forall_forall in HF.
  apply loss_law with (by_pattern G (map (fun u => nth u table 0%Z) us) us cs)
                      (by_pattern G (map (fun u => nth (rename u) table 0%Z) us) us cs).
  - intros f. rewrite <- (E_column_by_pattern table G (fun u => u) us cs f).
    + now rewrite map_id.
    + now rewrite map_id.
    + intros u Hu. now apply HB.
    + assumption.
  - intros f. apply E_column_by_pattern; auto. intros u Hu. now apply HB.
  - unfold by_pattern. apply loss_after. rewrite !map_map. apply loss_each_map.
    intros u Hu. destruct (HB u Hu).
    apply loss_of_coin; [| |now apply HD]; apply in_scale with lo; auto using nth_In.
Qed.

(** The same for a whole metric: a matching of classes with classes, summed over answer bits. *)
Theorem loss_of_same_pattern m (D : list Z -> nat -> nat -> R) rename us cs :
  valid m -> NoDup us -> NoDup (map rename us) -> (forall c, In c cs -> In c us) ->
  (forall u, In u us -> (u < classes m)%nat /\ (rename u < classes m)%nat) ->
  (forall t u, In t (tables m) -> In u us ->
     between (D t u (rename u)) (nth u t 0%Z) (nth (rename u) t 0%Z)) ->
  loss (total (tables m) (fun t => total us (fun u => D t u (rename u))))
       (answers_of_classes m cs) (answers_of_classes m (map rename cs)).
Proof.
  intros V ND ND' Hcs HB HD. unfold answers_of_classes.
  apply (loss_each_map _ _ _ (fun t => total us (fun u => D t u (rename u)))). intros t Ht.
  destruct (valid_m_tables m V t Ht) as [HL HF].
  apply loss_of_same_pattern_column with (low m); auto using valid_m_low.
  rewrite HL. assumption.
Qed.

(** ** The time of a change (Theorem 5, tight): given the memo, and hence on average over memos *)

Lemma loss_of_moved_classes m L n cs cs' :
  valid m -> 0 <= L -> hides (flip m) L -> differ_in n cs cs' ->
  loss (INR n * INR (length (tables m)) * L) (answers_of_classes m cs) (answers_of_classes m cs').
Proof.
  intros V HL HH HD. replace (INR n * INR (length (tables m)) * L) with (total (tables m) (fun _ => INR n * L))
    by (rewrite total_const; ring).
  apply loss_each_map. intros t _. apply loss_given. intros memo.
  apply loss_of_sent; auto using valid_m_flip, differ_in_map.
Qed.

(** Claim (loss_of_moved_change): two histories that differ in n rounds. *)
Theorem loss_of_moved_change m L n :
  valid m -> 0 <= L -> hides (flip m) L ->
  bounds (INR n * INR (length (tables m)) * L) (of_values (fun V => differ_in n) m).
Proof.
  intros V HL HH. apply by_classes; [intros; now apply differ_in_map|]. intros. now apply loss_of_moved_classes.
Qed.
