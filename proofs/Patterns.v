(** * Devices of one pattern: the figures of loss_by_width *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device.
Import ListNotations.
Open Scope R_scope.

Lemma list_sum_le {A} (l : list A) f k : (forall a, In a l -> (f a <= k)%nat) -> (list_sum (map f l) <= length l * k)%nat.
Proof.
  induction l as [|a l IH]; intros H; simpl; [lia|].
  pose proof (H a (or_introl eq_refl)). specialize (IH (fun b Hb => H b (or_intror Hb))). lia.
Qed.

Lemma list_sum_plus {A} (l : list A) f g :
  list_sum (map (fun a => f a + g a)%nat l) = (list_sum (map f l) + list_sum (map g l))%nat.
Proof. induction l as [|a l IH]; simpl; [reflexivity | rewrite IH; lia]. Qed.

(** A bound for every one-to-one renaming of the classes in use is a bound for all pairs of one pattern. *)
Lemma same_pattern_of_classes m (D : list Z -> nat -> nat -> R) F cs cs' :
  valid m -> same_pattern cs cs' ->
  within m cs -> within m cs' ->
  (forall t u v, In t (tables m) -> (u < classes m)%nat -> (v < classes m)%nat ->
     between (D t u v) (nth u t 0%Z) (nth v t 0%Z)) ->
  (forall us rename, length us = width cs -> NoDup us -> NoDup (map rename us) ->
     (forall u, In u us -> (u < classes m)%nat /\ (rename u < classes m)%nat) ->
     total (tables m) (fun t => total us (fun u => D t u (rename u))) <= F) ->
  loss F (answers_of_classes m cs) (answers_of_classes m cs').
Proof.
  intros V [r [-> Inj]] Hc Hc' HD HF.
  set (us := nodup Nat.eq_dec cs).
  assert (Hus : forall u, In u us <-> In u cs) by (intros; apply nodup_In).
  assert (HB : forall u, In u us -> (u < classes m)%nat /\ (r u < classes m)%nat).
  { intros u Hu. apply Hus in Hu. split; [now apply Hc | now apply Hc', in_map]. }
  assert (ND : NoDup us) by apply NoDup_nodup.
  assert (ND' : NoDup (map r us)) by (apply NoDup_map_in; [intros a b Ha Hb; apply Inj; now apply Hus | assumption]).
  eapply loss_weaken; [apply (HF us r); auto|].
  apply loss_of_same_pattern; auto.
  - intros c Hcs. now apply Hus.
  - intros t u Ht Hu. destruct (HB u Hu). now apply HD.
Qed.

(** ** Any mechanism: as many remembered bits as have another law, each e^h (w.eps for a mean and a Hadamard bit) *)

Lemma between_of_coin h lo T T' :
  valid_low lo -> coin_for h lo -> valid_threshold lo T -> valid_threshold lo T' -> between h T T'.
Proof.
  intros HL HC H H'. apply share_bounds in H, H'. apply odds_of_coin in HC. pose proof (exp_pos h).
  split; apply by_shares; rewrite ?share_rest; (apply Rle_trans with (exp h * share lo); [lra|]); apply Rmult_le_compat_l; lra.
Qed.

Theorem loss_by_changed_bits m h bits cs cs' :
  valid m -> 0 <= h -> coin_for h (low m) -> same_pattern cs cs' ->
  within m cs -> within m cs' ->
  (forall us rename, length us = width cs -> NoDup us -> NoDup (map rename us) ->
     (forall u, In u us -> (u < classes m)%nat /\ (rename u < classes m)%nat) ->
     (list_sum (map (fun t => list_sum (map (fun u => moved u (rename u) t) us)) (tables m)) <= bits)%nat) ->
  loss (INR bits * h) (answers_of_classes m cs) (answers_of_classes m cs').
Proof.
  intros V Hh HC SP H1 H2 HB.
  apply same_pattern_of_classes with (D := fun t u v => INR (moved u v t) * h); auto.
  - intros t u v Ht Hu Hv. unfold moved. destruct (Z.eqb_spec (nth u t 0%Z) (nth v t 0%Z)) as [->|NE].
    + simpl. rewrite Rmult_0_l. unfold between. rewrite exp_0. lra.
    + simpl. rewrite Rmult_1_l.
      apply between_of_coin with (low m); auto using valid_m_low, valid_nth.
  - intros us rename L ND ND' B.
    rewrite (total_ext _ _ (fun t => INR (list_sum (map (fun u => moved u (rename u) t) us)) * h))
      by (intros; apply total_count).
    rewrite total_count. apply Rmult_le_compat_r; [assumption|]. apply le_INR. now apply HB.
Qed.

(** ** Histograms: each answer bit has one class of its own, with a threshold unlike the rest *)

Definition one_special (t : list Z) : Prop :=
  exists s, forall c c', c <> s -> c' <> s -> (c < length t)%nat -> (c' < length t)%nat -> nth c t 0%Z = nth c' t 0%Z.

Lemma count_once s us : NoDup us -> (list_sum (map (fun u => if Nat.eqb u s then 1%nat else 0%nat) us) <= 1)%nat.
Proof.
  induction us as [|u us IH]; intros ND; simpl; [lia|]. inversion_clear ND as [|? ? NI ND'].
  specialize (IH ND'). destruct (Nat.eqb_spec u s) as [->|NE]; [|lia].
  assert (Z : forall l, ~ In s l -> list_sum (map (fun u => if Nat.eqb u s then 1%nat else 0%nat) l) = O).
  { clear. induction l as [|v l IH]; intros H; simpl; [reflexivity|].
    destruct (Nat.eqb_spec v s) as [->|]; [exfalso; apply H; simpl; auto|]. apply IH. intros I. apply H. simpl. auto. }
  rewrite Z by assumption. lia.
Qed.

Lemma moved_of_special t us rename :
  one_special t -> NoDup us -> NoDup (map rename us) ->
  (forall u, In u us -> (u < length t)%nat /\ (rename u < length t)%nat) ->
  (list_sum (map (fun u => moved u (rename u) t) us) <= 2)%nat.
Proof.
  intros [s HS] ND ND' HB.
  pose proof (count_once s us ND) as C1. pose proof (count_once s _ ND') as C2. rewrite map_map in C2.
  enough (list_sum (map (fun u => moved u (rename u) t) us)
          <= list_sum (map (fun u => if Nat.eqb u s then 1 else 0) us)
             + list_sum (map (fun u => if Nat.eqb (rename u) s then 1 else 0) us))%nat by lia.
  clear - HS HB. induction us as [|u us IH]; simpl; [lia|].
  specialize (IH (fun v Hv => HB v (or_intror Hv))). destruct (HB u (or_introl eq_refl)) as [B1 B2].
  assert (moved u (rename u) t <= (if Nat.eqb u s then 1 else 0) + (if Nat.eqb (rename u) s then 1 else 0))%nat.
  { unfold moved. destruct (Nat.eqb_spec u s), (Nat.eqb_spec (rename u) s); try (destruct (_ =? _)%Z; lia).
    rewrite (HS u (rename u)), Z.eqb_refl by assumption. lia. }
  lia.
Qed.

(** Claim: 2h.min(w, d) for d >= 2 bits (two values change two bits), h.min(w, 2) for one; w.eps, w <= 2, for a
    Hadamard bit. [two] is how many bits differ between two classes: 2, or 1 where there is one bit. *)
Theorem loss_by_width_of_histogram m h two cs cs' :
  valid m -> 0 <= h -> coin_for h (low m) -> (forall t, In t (tables m) -> one_special t) ->
  (forall c c', (c < classes m)%nat -> (c' < classes m)%nat -> (changed m c c' <= two)%nat) ->
  same_pattern cs cs' ->
  within m cs -> within m cs' ->
  loss (INR (Nat.min (two * width cs) (2 * length (tables m))) * h)
       (answers_of_classes m cs) (answers_of_classes m cs').
Proof.
  intros V Hh HC HS HT SP H1 H2. apply loss_by_changed_bits; auto.
  intros us rename L ND ND' B. apply Nat.min_glb.
  - (* class by class *)
    rewrite <- L. clear - HT B. revert B. induction us as [|u us IH]; intros B.
    + simpl. assert (Z0 : list_sum (map (fun _ : list Z => 0%nat) (tables m)) = 0%nat)
        by (induction (tables m); simpl; auto).
      lia.
    + pose proof (list_sum_plus (tables m) (moved u (rename u))
                    (fun t => list_sum (map (fun u0 => moved u0 (rename u0) t) us))) as E.
      fold (changed m u (rename u)) in E. simpl in *.
      rewrite E. destruct (B u (or_introl eq_refl)) as [B1 B2]. specialize (HT _ _ B1 B2).
      specialize (IH (fun v Hv => B v (or_intror Hv))). lia.
  - (* bit by bit *)
    eapply Nat.le_trans; [apply (list_sum_le _ _ 2)|lia].
    intros t Ht. apply moved_of_special; auto.
    rewrite (proj1 (valid_m_tables m V t Ht)). assumption.
Qed.

(** ** Means: the heaviest matching, certified by prices (linear programming duality) *)

Lemma total_map_incl (us : list nat) n f :
  NoDup us -> (forall u, In u us -> (u < n)%nat) -> (forall c, 0 <= f c) -> total us f <= total (seq 0 n) f.
Proof.
  intros ND B F.
  assert (I : forall l, NoDup us -> (forall u, In u us -> In u l) -> total us f <= total l f).
  { clear - F. induction us as [|u us IH]; intros l ND H; simpl.
    - apply total_nonneg. auto.
    - inversion_clear ND as [|? ? NI ND'].
      destruct (in_split u l (H u (or_introl eq_refl))) as [l1 [l2 ->]].
      assert (S : total (l1 ++ u :: l2) f = f u + total (l1 ++ l2) f).
      { clear. induction l1 as [|v l1 IH]; simpl; [reflexivity | rewrite IH; lra]. }
      rewrite S. apply Rplus_le_compat_l, IH; [assumption|].
      intros v Hv. specialize (H v (or_intror Hv)). apply in_app_iff in H as [H|[->|H]].
      + apply in_app_iff. auto.
      + contradiction.
      + apply in_app_iff. auto. }
  apply I; [assumption|]. intros u Hu. apply in_seq. specialize (B u Hu). lia.
Qed.

(** With prices theta, alpha_u, beta_v >= 0 such that every pair of cells costs at most theta + alpha_u + beta_v,
    devices of width w lose at most w.theta + the sum of alphas and betas. *)
Theorem loss_by_prices m table theta (alpha beta : nat -> R) w cs cs' :
  valid m -> tables m = [table] -> 0 <= theta -> (forall c, 0 <= alpha c) -> (forall c, 0 <= beta c) ->
  (forall u v, (u < classes m)%nat -> (v < classes m)%nat ->
     between (theta + alpha u + beta v) (nth u table 0%Z) (nth v table 0%Z)) ->
  same_pattern cs cs' -> (width cs <= w)%nat ->
  within m cs -> within m cs' ->
  loss (INR w * theta + total (seq 0 (classes m)) (fun c => alpha c + beta c))
       (answers_of_classes m cs) (answers_of_classes m cs').
Proof.
  intros V HT Ht Ha Hb HP SP HW H1 H2.
  apply same_pattern_of_classes with (D := fun _ u v => theta + alpha u + beta v); auto.
  - intros t u v It Hu Hv. rewrite HT in It. destruct It as [<-|[]]. now apply HP.
  - intros us rename L ND ND' B. rewrite HT. simpl. rewrite Rplus_0_r.
    rewrite (total_ext us _ (fun u => theta + (alpha u + beta (rename u)))) by (intros; lra).
    rewrite !total_plus, total_const, L.
    pose proof (total_map_incl us (classes m) alpha ND (fun u Hu => proj1 (B u Hu)) Ha) as TA.
    pose proof (total_map_incl (map rename us) (classes m) beta ND') as TB. rewrite total_map in TB.
    assert (total us (fun u => beta (rename u)) <= total (seq 0 (classes m)) beta).
    { apply TB; [|assumption]. intros v Hv. apply in_map_iff in Hv as [u [<- Hu]]. now apply B. }
    assert (INR (width cs) * theta <= INR w * theta).
    { apply Rmult_le_compat_r; [assumption|]. now apply le_INR. }
    lra.
Qed.

(** The odds of a remembered bit, |ln P/(1-P)|, in two parts that are not negative: f(u) + g(v) bounds what a bit tells
    about cell u against cell v, and f(c) + g(c) is the odds of cell c. *)
Section OddsOfMean.
  Variables (m : metric) (table : list Z).
  Hypothesis V : valid m.
  Hypothesis HT : tables m = [table].

  Definition rarer (c : nat) : Z := Z.min (nth c table 0%Z) (SCALE - nth c table 0%Z).
  Definition odds_of (c : nat) : R := ln (IZR (SCALE - rarer c)) - ln (IZR (rarer c)).
  Let f (c : nat) : R := ln (IZR (SCALE - rarer c)) - ln (IZR SCALE / 2).
  Let g (c : nat) : R := ln (IZR SCALE / 2) - ln (IZR (rarer c)).

  Lemma rarer_bounds c : (c < classes m)%nat -> 0 < IZR (rarer c) /\ 2 * IZR (rarer c) <= IZR SCALE.
  Proof.
    intros Hc. assert (It : In table (tables m)) by (rewrite HT; simpl; auto).
    pose proof (valid_nth m table c V It Hc) as [X Y]. destruct (valid_m_low m V).
    split; [apply IZR_lt | rewrite <- mult_IZR; apply IZR_le]; unfold rarer; lia.
  Qed.

  Lemma odds_by_rarer c d : (c < classes m)%nat -> (d < classes m)%nat -> (rarer c <= rarer d)%Z -> f d <= f c /\ g d <= g c.
  Proof.
    intros Hc Hd L. apply IZR_le in L. pose proof (rarer_bounds c Hc). pose proof (rarer_bounds d Hd).
    unfold f, g. rewrite !minus_IZR.
    assert (ln (IZR SCALE - IZR (rarer d)) <= ln (IZR SCALE - IZR (rarer c))) by (apply ln_le'; lra).
    assert (ln (IZR (rarer c)) <= ln (IZR (rarer d))) by (apply ln_le'; lra). lra.
  Qed.

  Lemma odds_nonneg c : (c < classes m)%nat -> 0 <= f c /\ 0 <= g c.
  Proof.
    intros Hc. pose proof (rarer_bounds c Hc). unfold f, g. rewrite minus_IZR.
    assert (ln (IZR SCALE / 2) <= ln (IZR SCALE - IZR (rarer c))) by (apply ln_le'; lra).
    assert (ln (IZR (rarer c)) <= ln (IZR SCALE / 2)) by (apply ln_le'; lra). lra.
  Qed.

  (** Claim (loss_by_width of a mean): with any cell d, w times its odds and what other cells exceed it by. With d the
      cell of the w-th largest odds that is the sum of the w largest. *)
  Theorem loss_by_width_of_mean w d cs cs' :
    (d < classes m)%nat -> same_pattern cs cs' -> (width cs <= w)%nat -> within m cs -> within m cs' ->
    loss (INR w * odds_of d + total (seq 0 (classes m)) (fun c => Rmax (odds_of c - odds_of d) 0))
         (answers_of_classes m cs) (answers_of_classes m cs').
  Proof.
    intros Hd SP HW H1 H2. destruct (odds_nonneg d Hd) as [f0 g0].
    assert (E : forall c, odds_of c = f c + g c) by (intros; unfold odds_of, f, g; ring).
    rewrite (total_ext _ _ (fun c => Rmax (f c - f d) 0 + Rmax (g c - g d) 0)).
    - rewrite E. apply loss_by_prices with table; auto; try (intros; apply Rmax_r); [lra|].
      intros u v Hu Hv. destruct (rarer_bounds u Hu) as [U1 U2], (rarer_bounds v Hv) as [V1 V2].
      set (L := f d + g d + Rmax (f u - f d) 0 + Rmax (g v - g d) 0).
      assert (big : IZR (SCALE - rarer u) <= exp L * IZR (rarer v)).
      { apply Rle_trans with (exp (f u + g v) * IZR (rarer v)).
        - unfold f, g. replace (ln (IZR (SCALE - rarer u)) - ln (IZR SCALE / 2) + (ln (IZR SCALE / 2) - ln (IZR (rarer v))))
            with (ln (IZR (SCALE - rarer u)) + - ln (IZR (rarer v))) by ring.
          rewrite minus_IZR, exp_plus, exp_Ropp, !exp_ln by lra. right. field. lra.
        - apply Rmult_le_compat_r; [lra|]. pose proof (Rmax_l (f u - f d) 0). pose proof (Rmax_l (g v - g d) 0).
          apply exp_le. unfold L. lra. }
      pose proof (exp_pos L) as E0.
      split; (eapply Rle_trans; [|eapply Rle_trans; [exact big|]]; [|apply Rmult_le_compat_l; [lra|]]);
        apply IZR_le; unfold rarer; lia.
    - intros c Hc. apply in_seq in Hc. rewrite !E. destruct (Z.le_ge_cases (rarer c) (rarer d)) as [L|L].
      + destruct (odds_by_rarer c d ltac:(lia) Hd L).  rewrite !Rmax_left; lra.
      + destruct (odds_by_rarer d c Hd ltac:(lia) L).  rewrite !Rmax_right; lra.
  Qed.
End OddsOfMean.
