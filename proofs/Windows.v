(** * Windows of sampled answers: several of them, and a year's budget *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws.
Import ListNotations.
Open Scope R_scope.

(** A window in two cases: from [start] until before [ends], with what is sent about it and the bound of its loss. *)
Record two_windows A := { start : Z; ends : Z; cost : R; window_x : program A; window_y : program A }.
Arguments start {A}. Arguments ends {A}. Arguments cost {A}. Arguments window_x {A}. Arguments window_y {A}.

Definition right_cost {A} (w : two_windows A) : Prop := 0 <= cost w /\ loss (cost w) (window_x w) (window_y w).

(** Windows have draws of their own, so their losses add; one without a difference in values costs nothing. *)
Theorem loss_of_windows {A} (ws : list (two_windows A)) :
  (forall w, In w ws -> right_cost w) -> loss (total ws cost) (each (map window_x ws)) (each (map window_y ws)).
Proof. intros H. apply loss_each_map. intros w I. now apply H. Qed.

(** R rounds in a row touch at most ceil((R-1)/W) + 1 windows of W rounds, wherever they begin. *)
Theorem windows_touched first rounds W :
  (0 < W)%Z -> (1 <= rounds)%Z ->
  ((first + rounds - 1) / W - first / W + 1 <= (rounds - 1 + W - 1) / W + 1)%Z.
Proof.
  intros HW HR. pose proof (Z.div_mod first W ltac:(lia)) as D. pose proof (Z.mod_pos_bound first W HW) as M.
  set (q := (first / W)%Z) in *. set (r := (first mod W)%Z) in *.
  assert ((first + rounds - 1) / W = q + (r + rounds - 1) / W)%Z as ->.
  { replace (first + rounds - 1)%Z with (q * W + (r + rounds - 1))%Z by lia. now rewrite Z.div_add_l by lia. }
  assert ((r + rounds - 1) / W <= (rounds - 1 + W - 1) / W)%Z by (apply Z.div_le_mono; lia). lia.
Qed.

(** ** A year's budget (ledger.has_room)

    A window is held only if its loss and those of the windows held before that ended within a year of its start stay
    within the budget. Windows are listed the last one first.                                                         *)

Definition since {A} (time : Z) (ws : list (two_windows A)) : list (two_windows A) :=
  filter (fun w => time <? ends w)%Z ws.

Fixpoint within_budget {A} (year : Z) (most : R) (held : list (two_windows A)) : Prop :=
  match held with
  | [] => True
  | w :: before => cost w + total (since (start w - year) before) cost <= most /\ within_budget year most before
  end.

(** Those that touch the year from [time] on. *)
Definition touching {A} (year time : Z) (ws : list (two_windows A)) : list (two_windows A) :=
  filter (fun w => start w <? time + year)%Z (since time ws).

Lemma since_later {A} time time' (ws : list (two_windows A)) :
  (time <= time')%Z -> (forall w, In w ws -> 0 <= cost w) -> total (since time' ws) cost <= total (since time ws) cost.
Proof.
  intros T N. unfold since. induction ws as [|w ws IH]; simpl; [lra|]. specialize (IH (fun v I => N v (or_intror I))).
  pose proof (N w (or_introl eq_refl)). destruct (Z.ltb_spec time' (ends w)), (Z.ltb_spec time (ends w)); simpl; lra || lia.
Qed.

(** Claim (a year's budget): all that is sent of windows that touch any year loses at most the budget. Proof: the last
    of them counted all the others, since they end after that year began. *)
Theorem loss_of_a_year {A} year most (held : list (two_windows A)) time :
  0 <= most -> (forall w, In w held -> right_cost w) -> within_budget year most held ->
  loss most (each (map window_x (touching year time held))) (each (map window_y (touching year time held))).
Proof.
  intros M R B. assert (N : forall w, In w held -> 0 <= cost w) by (intros w I; now apply R).
  apply loss_weaken with (total (touching year time held) cost).
  - clear R. induction held as [|w held IH]; [exact M|]. destruct B as [B1 B2].
    specialize (IH B2 (fun v I => N v (or_intror I))). unfold touching, since in *. simpl.
    destruct (Z.ltb_spec time (ends w)); simpl; [|assumption].
    destruct (Z.ltb_spec (start w) (time + year)); [|assumption]. simpl.
    eapply Rle_trans; [|exact B1]. apply Rplus_le_compat_l.
    apply Rle_trans with (total (since time held) cost).
    + apply total_filter. intros v I. apply filter_In in I. apply N. simpl. tauto.
    + apply since_later; [lia|]. intros v I. apply N. simpl. auto.
  - apply loss_of_windows. intros w I. apply R. unfold touching, since in I. now rewrite !filter_In in I.
Qed.
