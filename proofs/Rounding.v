(** * Rounding by alpha (Theorem 3), and Eq. 1 over alphas, in the integers of the device

    Values and grid points are whole numbers: a rational value is a whole number of units fine enough, and neither
    the comparison of [Grid.cell] nor the thresholds of [OneBitMean] change with the unit.                         *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device.
Import ListNotations.
Open Scope R_scope.

Lemma cell_bound points alpha x : points <> [] -> (cell points alpha x < length points)%nat.
Proof.
  induction points as [|l [|r rest] IH]; intros H; [contradiction | simpl; lia|].
  change (cell (l :: r :: rest) alpha x)
    with (if (r <=? x)%Z then S (cell (r :: rest) alpha x)
          else if ((r - x) * SCALE <=? alpha * (r - l))%Z then 1%nat else 0%nat).
  assert (cell (r :: rest) alpha x < length (r :: rest))%nat by (apply IH; discriminate).
  simpl length in *. destruct (r <=? x)%Z; [lia|]. destruct (_ <=? _)%Z; lia.
Qed.

(** How many alphas round x up: floor((x - l) 2^64 / (r - l)). *)
Definition alphas_up (l r x : Z) : Z := ((x - l) * SCALE / (r - l))%Z.

Lemma alphas_up_bounds l r x : (l <= x < r)%Z -> (0 <= alphas_up l r x < SCALE)%Z.
Proof.
  intros H. pose proof SCALE_positive. unfold alphas_up. split.
  - apply Z.div_pos; nia.
  - apply Z.div_lt_upper_bound; nia.
Qed.

Lemma goes_up l r x alpha :
  (l <= x < r)%Z ->
  ((r - x) * SCALE <=? alpha * (r - l))%Z = negb (alpha <? SCALE - alphas_up l r x)%Z.
Proof.
  intros H. pose proof SCALE_positive as HS. unfold alphas_up.
  pose proof (Z.div_mod ((x - l) * SCALE) (r - l)) as D.
  pose proof (Z.mod_pos_bound ((x - l) * SCALE) (r - l)) as M.
  set (k := ((x - l) * SCALE / (r - l))%Z) in *. set (q := (((x - l) * SCALE) mod (r - l))%Z) in *.
  destruct (Z.leb_spec ((r - x) * SCALE) (alpha * (r - l))),
           (Z.ltb_spec alpha (SCALE - k)); simpl; try reflexivity; exfalso; nia.
Qed.

(** The mean over alphas of anything that depends on the cell alone. *)
Lemma mean_over_alphas l r x (up down : R) :
  (l <= x < r)%Z ->
  mean (fun alpha => if ((r - x) * SCALE <=? alpha * (r - l))%Z then up else down)
  = share (alphas_up l r x) * up + (1 - share (alphas_up l r x)) * down.
Proof.
  intros H. pose proof (alphas_up_bounds l r x H) as B.
  rewrite (mean_ext _ (fun alpha => if (alpha <? SCALE - alphas_up l r x)%Z then down else up)).
  - rewrite mean_threshold by lia. unfold share. rewrite minus_IZR.
    field. pose proof IZR_SCALE_positive; lra.
  - intros u _. rewrite goes_up by assumption. now destruct (_ <? _)%Z.
Qed.

(** The share of alphas that round up is (x - l)/(r - l) rounded down to a multiple of 2^-64. *)
Theorem share_of_alphas l r x :
  (l <= x < r)%Z ->
  IZR (x - l) / IZR (r - l) - 1 / IZR SCALE < share (alphas_up l r x) <= IZR (x - l) / IZR (r - l).
Proof.
  intros H. pose proof IZR_SCALE_positive as HS. unfold share, alphas_up.
  pose proof (Z.div_mod ((x - l) * SCALE) (r - l)) as D.
  pose proof (Z.mod_pos_bound ((x - l) * SCALE) (r - l)) as M.
  set (k := ((x - l) * SCALE / (r - l))%Z) in *. set (q := (((x - l) * SCALE) mod (r - l))%Z) in *.
  assert (R0 : 0 < IZR (r - l)) by (apply IZR_lt; lia).
  assert (A : (k * (r - l) <= (x - l) * SCALE)%Z) by nia.
  assert (B : ((x - l) * SCALE < (k + 1) * (r - l))%Z) by nia.
  apply IZR_le in A. apply IZR_lt in B. rewrite !mult_IZR in *. rewrite plus_IZR in B.
  split.
  - apply (Rmult_lt_reg_r (IZR (r - l) * IZR SCALE)); [now apply Rmult_lt_0_compat|].
    field_simplify; lra.
  - apply (Rmult_le_reg_r (IZR (r - l) * IZR SCALE)); [now apply Rmult_lt_0_compat|].
    field_simplify; lra.
Qed.

(** Theorem 3, first half, as the device has it: the mean of the rounded value is x, less than one part in 2^64 of a
    step below. *)
Theorem rounding_is_nearly_unbiased l r x :
  (l <= x < r)%Z ->
  IZR x - IZR (r - l) / IZR SCALE
  < mean (fun alpha => if ((r - x) * SCALE <=? alpha * (r - l))%Z then IZR r else IZR l) <= IZR x.
Proof.
  intros H. rewrite mean_over_alphas by assumption.
  pose proof (share_of_alphas l r x H) as [A B]. pose proof IZR_SCALE_positive as HS.
  assert (R0 : 0 < IZR (r - l)) by (apply IZR_lt; lia).
  set (s := share (alphas_up l r x)) in *.
  replace (s * IZR r + (1 - s) * IZR l) with (IZR l + s * IZR (r - l)) by (rewrite minus_IZR; ring).
  split.
  - apply (Rmult_lt_compat_r (IZR (r - l))) in A; [|assumption].
    replace ((IZR (x - l) / IZR (r - l) - 1 / IZR SCALE) * IZR (r - l))
      with (IZR (x - l) - IZR (r - l) / IZR SCALE) in A by (field; lra).
    pose proof (minus_IZR x l). lra.
  - apply (Rmult_le_compat_r (IZR (r - l))) in B; [|lra].
    replace (IZR (x - l) / IZR (r - l) * IZR (r - l)) with (IZR (x - l)) in B by (field; lra).
    pose proof (minus_IZR x l). lra.
Qed.

(** And it is not x exactly: one third of the way is never reached exactly. *)
Theorem rounding_has_a_bias :
  mean (fun alpha => if ((3 - 1) * SCALE <=? alpha * (3 - 0))%Z then 3 else 0) < 1.
Proof.
  rewrite mean_over_alphas by lia. unfold share, alphas_up.
  assert (E : ((1 - 0) * SCALE / (3 - 0) * 3 + 1 = SCALE)%Z) by reflexivity.
  set (k := ((1 - 0) * SCALE / (3 - 0))%Z) in *.
  apply (f_equal IZR) in E. rewrite plus_IZR, mult_IZR in E. pose proof IZR_SCALE_positive as HS.
  apply (Rmult_lt_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
Qed.

(** ** Eq. 1 over alphas *)

Fixpoint increasing (points : list Z) : Prop :=
  match points with
  | l :: ((r :: _) as rest) => (l < r)%Z /\ increasing rest
  | _ => True
  end.

(** The chance of a remembered 1, over alphas and the memo. *)
Definition chance_of_one (points table : list Z) (x : Z) : R :=
  mean (fun alpha => share (nth (cell points alpha x) table 0%Z)).

Lemma threshold_bounds low top p :
  (0 < top)%Z ->
  IZR low + IZR p * IZR (SCALE - 2 * low) / IZR top - 1 < IZR (cell_threshold low top p)
  <= IZR low + IZR p * IZR (SCALE - 2 * low) / IZR top.
Proof.
  intros H. unfold cell_threshold.
  pose proof (Z.div_mod (p * (SCALE - 2 * low)) top) as D.
  pose proof (Z.mod_pos_bound (p * (SCALE - 2 * low)) top) as M.
  set (k := (p * (SCALE - 2 * low) / top)%Z) in *. set (q := ((p * (SCALE - 2 * low)) mod top)%Z) in *.
  assert (A : (k * top <= p * (SCALE - 2 * low))%Z) by nia.
  assert (B : (p * (SCALE - 2 * low) < (k + 1) * top)%Z) by nia.
  apply IZR_le in A. apply IZR_lt in B. rewrite !mult_IZR in *. rewrite !plus_IZR in *.
  assert (T0 : 0 < IZR top) by now apply IZR_lt.
  split.
  - apply (Rmult_lt_reg_r (IZR top)); [assumption|]. field_simplify; lra.
  - apply (Rmult_le_reg_r (IZR top)); [assumption|]. field_simplify; lra.
Qed.

Lemma threshold_monotone low top p p' :
  (0 < top)%Z -> (2 * low <= SCALE)%Z -> (p <= p')%Z -> (cell_threshold low top p <= cell_threshold low top p')%Z.
Proof.
  intros H HL HP. unfold cell_threshold. apply Z.add_le_mono_l, Z.div_le_mono; nia.
Qed.

(** Theorem 3, second half. P(1 | x) is Eq. 1 with the integers low and high = 2^64 - low, never above and less than
    2 / 2^64 below. That it is never above is what joint limits need. *)
Theorem one_bit_mean_over_alphas low top points x :
  valid_low low -> (0 < top)%Z -> points <> [] -> increasing points ->
  Forall (fun p => (0 <= p <= top)%Z) points -> (hd 0%Z points <= x <= last points 0%Z)%Z ->
  let line := share low + IZR x / IZR top * (1 - 2 * share low) in
  let table := map (cell_threshold low top) points in
  line - 2 / IZR SCALE < chance_of_one points table x <= line.
Proof.
  intros [L1 L2] HT NE Inc Rng HX line table. pose proof IZR_SCALE_positive as HS.
  assert (T0 : 0 < IZR top) by now apply IZR_lt.
  set (spread := IZR (SCALE - 2 * low)).
  assert (Sp : 0 <= spread <= IZR SCALE - 1) by (unfold spread; split; [|rewrite <- minus_IZR]; apply IZR_le; lia).
  set (eq1 := fun p => IZR low + IZR p * spread / IZR top).
  assert (lineS : line = eq1 x / IZR SCALE).
  { unfold line, eq1, spread, share. rewrite minus_IZR, mult_IZR. field. lra. }
  assert (TB : forall p, eq1 p - 1 < IZR (cell_threshold low top p) <= eq1 p)
    by (intros p; now apply threshold_bounds).
  rewrite lineS. unfold table. clear table line lineS.
  enough (goal : eq1 x - 2 < chance_of_one points (map (cell_threshold low top) points) x * IZR SCALE <= eq1 x).
  { split.
    - apply (Rmult_lt_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
    - apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra. }
  induction points as [|l [|r rest] IH]; [contradiction| |].
  - (* x is the last point *)
    simpl in HX. assert (x = l) as -> by lia.
    unfold chance_of_one. simpl. rewrite mean_const. specialize (TB l). unfold share.
    replace (IZR (cell_threshold low top l) / IZR SCALE * IZR SCALE) with (IZR (cell_threshold low top l))
      by (field; lra). lra.
  - destruct Inc as [Hlr Inc].
    assert (step : forall alpha, cell (l :: r :: rest) alpha x
            = if (r <=? x)%Z then S (cell (r :: rest) alpha x)
              else if ((r - x) * SCALE <=? alpha * (r - l))%Z then 1%nat else 0%nat) by reflexivity.
    inversion_clear Rng as [|? ? Rl Rng']. inversion Rng' as [|? ? Rr _]. subst.
    unfold chance_of_one. destruct (Z.leb_spec r x) as [Hr|Hr].
    + (* further up *)
      rewrite (mean_ext _ (fun alpha => share (nth (cell (r :: rest) alpha x)
                                                (map (cell_threshold low top) (r :: rest)) 0%Z))).
      * apply IH; [discriminate | assumption | assumption |]. simpl in *. lia.
      * intros alpha _. now rewrite step.
    + (* between l and r *)
      assert (HI : (l <= x < r)%Z) by (simpl in HX; lia).
      rewrite (mean_ext _ (fun alpha => if ((r - x) * SCALE <=? alpha * (r - l))%Z
                                        then share (cell_threshold low top r)
                                        else share (cell_threshold low top l))).
      2: { intros alpha _. rewrite step. now destruct (_ <=? _)%Z. }
      rewrite mean_over_alphas by assumption.
      pose proof (share_of_alphas l r x HI) as [SA SB].
      pose proof (TB l) as [A1 B1]. pose proof (TB r) as [A2 B2].
      pose proof (threshold_monotone low top l r HT L2 ltac:(lia)) as Mo. apply IZR_le in Mo.
      set (tl := IZR (cell_threshold low top l)) in *. set (tr := IZR (cell_threshold low top r)) in *.
      set (s := share (alphas_up l r x)) in *.
      unfold share. fold tl tr.
      replace ((s * (tr / IZR SCALE) + (1 - s) * (tl / IZR SCALE)) * IZR SCALE) with (tl + s * (tr - tl))
        by (field; lra).
      assert (W0 : 0 < IZR (r - l)) by (apply IZR_lt; lia).
      set (rho := IZR (x - l) / IZR (r - l)) in *.
      assert (rho01 : 0 <= rho <= 1).
      { unfold rho. split.
        - apply Rmult_le_pos; [apply IZR_le; lia | left; now apply Rinv_0_lt_compat].
        - apply (Rmult_le_reg_r (IZR (r - l))); [assumption|]. field_simplify; [|lra]. apply IZR_le. lia. }
      assert (mid : eq1 l * (1 - rho) + eq1 r * rho = eq1 x).
      { unfold eq1, rho. rewrite !minus_IZR in *. field. lra. }
      assert (low0 : IZR low <= tl).
      { unfold tl. apply IZR_le. unfold cell_threshold.
        assert (0 <= l * (SCALE - 2 * low) / top)%Z by (apply Z.div_pos; nia). lia. }
      assert (high0 : tr <= IZR low + spread).
      { apply Rle_trans with (eq1 r); [assumption|]. unfold eq1. apply Rplus_le_compat_l.
        apply (Rmult_le_reg_r (IZR top)); [assumption|].
        replace (IZR r * spread / IZR top * IZR top) with (IZR r * spread) by (field; lra).
        assert (IZR r <= IZR top) by (apply IZR_le; lia). nra. }
      split.
      * assert (s * (tr - tl) >= (rho - 1 / IZR SCALE) * (tr - tl)) by nra.
        assert (1 / IZR SCALE * (tr - tl) <= 1).
        { apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra. }
        assert (0 < (tl - (eq1 l - 1)) * (1 - rho) + (tr - (eq1 r - 1)) * rho).
        { destruct (Rle_lt_dec rho (1 / 2)); nra. }
        nra.
      * assert (s * (tr - tl) <= rho * (tr - tl)) by (apply Rmult_le_compat_r; lra).
        assert (0 <= (eq1 l - tl) * (1 - rho)) by (apply Rmult_le_pos; lra).
        assert (0 <= (eq1 r - tr) * rho) by (apply Rmult_le_pos; lra).
        nra.
Qed.

(** Points that start at 0 and increase ([Grid]). *)
Definition valid_points (points : list Z) : Prop :=
  hd 1%Z points = 0%Z /\ increasing points /\ (1 < length points)%nat.

Lemma increasing_range l points :
  increasing (l :: points) -> Forall (fun p => (l <= p <= last (l :: points) 0)%Z) (l :: points).
Proof.
  revert l. induction points as [|r points IH]; intros l H.
  - constructor; [simpl; lia | constructor].
  - destruct H as [Hlr H]. specialize (IH r H).
    assert (E : last (l :: r :: points) 0%Z = last (r :: points) 0%Z) by reflexivity.
    rewrite E. inversion IH as [|? ? R1 R2]. subst. constructor; [lia|].
    apply Forall_impl with (2 := IH). intros; lia.
Qed.

Lemma valid_points_range points :
  valid_points points ->
  (0 < last points 0)%Z /\ points <> [] /\ hd 0%Z points = 0%Z /\
  Forall (fun p => (0 <= p <= last points 0)%Z) points.
Proof.
  intros [H0 [Inc Len]]. destruct points as [|l [|r points]]; simpl in Len; try lia.
  simpl in H0. subst l. pose proof (increasing_range 0 (r :: points) Inc) as F.
  repeat split; try assumption; try discriminate.
  inversion F as [|? ? _ F']. inversion F' as [|? ? Hr _]. destruct Inc as [X _].
  change (last (0%Z :: r :: points) 0%Z) with (last (r :: points) 0%Z) in *. lia.
Qed.

Theorem mean_metric_is_valid points lo G :
  valid_points points -> valid_low lo -> valid_flip G -> valid (mean_metric points lo G).
Proof.
  intros HP HL HG. destruct (valid_points_range points HP) as [T0 [NE [_ Rng]]].
  constructor; simpl; try assumption.
  - intros t [<-|[]]. rewrite map_length. split; [reflexivity|].
    rewrite Forall_forall in *. intros T IT. apply in_map_iff in IT as [p [<- Ip]].
    specialize (Rng p Ip). destruct HL as [L1 L2]. unfold valid_threshold, cell_threshold.
    set (top := last points 0%Z) in *.
    assert (0 <= p * (SCALE - 2 * lo) / top)%Z by (apply Z.div_pos; nia).
    assert (p * (SCALE - 2 * lo) / top <= SCALE - 2 * lo)%Z by (apply Z.div_le_upper_bound; nia).
    lia.
  - intros alpha x. now apply cell_bound.
Qed.
