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

Lemma div_bounds a b : (0 < b)%Z -> IZR a / IZR b - 1 < IZR (a / b) <= IZR a / IZR b.
Proof.
  intros H. pose proof (Z.div_mod a b ltac:(lia)) as D. pose proof (Z.mod_pos_bound a b H) as M.
  apply IZR_lt in H. assert (E : IZR a / IZR b = IZR (a / b) + IZR (a mod b) / IZR b).
  { rewrite D at 1. rewrite plus_IZR, mult_IZR. field. lra. }
  destruct M as [M1 M2]. apply IZR_le in M1. apply IZR_lt in M2. rewrite E. split.
  - enough (IZR (a mod b) / IZR b < 1) by lra. apply (Rmult_lt_reg_r (IZR b)); [assumption|]. field_simplify; lra.
  - assert (0 <= IZR (a mod b) / IZR b); [|lra]. apply Rmult_le_pos; [assumption | left; now apply Rinv_0_lt_compat].
Qed.

(** The share of alphas that round up is (x - l)/(r - l) rounded down to a multiple of 2^-64. *)
Theorem share_of_alphas l r x :
  (l <= x < r)%Z ->
  IZR (x - l) / IZR (r - l) - 1 / IZR SCALE < share (alphas_up l r x) <= IZR (x - l) / IZR (r - l).
Proof.
  intros H. pose proof IZR_SCALE_positive as HS. pose proof (div_bounds ((x - l) * SCALE) (r - l) ltac:(lia)) as [A B].
  fold (alphas_up l r x) in A, B. assert (0 < IZR (r - l)) by (apply IZR_lt; lia). rewrite mult_IZR in A, B.
  replace (IZR (x - l) / IZR (r - l)) with (IZR (x - l) * IZR SCALE / IZR (r - l) * / IZR SCALE) by (field; lra).
  unfold share, Rdiv at 2 3. pose proof (Rinv_0_lt_compat _ HS) as I. split.
  - apply (Rmult_lt_compat_r _ _ _ I) in A. lra.
  - apply Rmult_le_compat_r; lra.
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
  intros H. pose proof (div_bounds (p * (SCALE - 2 * low)) top H). rewrite mult_IZR in *.
  unfold cell_threshold. rewrite plus_IZR. lra.
Qed.

(** On a line from a to b, with both ends and the share of the way rounded down. *)
Lemma line_rounded_down a b tl tr s rho w :
  a - 1 < tl <= a -> b - 1 < tr <= b -> tl <= tr -> 0 <= rho <= 1 -> rho - w < s <= rho -> w * (tr - tl) <= 1 ->
  a + rho * (b - a) - 2 < tl + s * (tr - tl) <= a + rho * (b - a).
Proof.
  intros A B M R0 S W.
  assert (s * (tr - tl) <= rho * (tr - tl)) by (apply Rmult_le_compat_r; lra).
  assert ((rho - w) * (tr - tl) <= s * (tr - tl)) by (apply Rmult_le_compat_r; lra).
  assert (0 <= (a - tl) * (1 - rho)) by (apply Rmult_le_pos; lra).
  assert (0 <= (b - tr) * rho) by (apply Rmult_le_pos; lra).
  assert (0 < (tl - (a - 1)) * (1 - rho) + (tr - (b - 1)) * rho) by (destruct (Rle_lt_dec rho (1 / 2)); nra). lra.
Qed.

(** Theorem 3, second half. P(1 | x) is Eq. 1 with the integers low and high = 2^64 - low, never above and less than
    2 / 2^64 below. That it is never above is what joint limits need. Proof: find the two points around x. *)
Theorem one_bit_mean_over_alphas low top points x :
  valid_low low -> (0 < top)%Z -> points <> [] -> increasing points ->
  Forall (fun p => (0 <= p <= top)%Z) points -> (hd 0%Z points <= x <= last points 0%Z)%Z ->
  let line := share low + IZR x / IZR top * (1 - 2 * share low) in
  let table := map (cell_threshold low top) points in
  line - 2 / IZR SCALE < chance_of_one points table x <= line.
Proof.
  intros [L1 L2] HT NE Inc Rng HX line table. pose proof IZR_SCALE_positive as HS. pose proof (IZR_lt _ _ HT) as T0.
  set (spread := IZR (SCALE - 2 * low)). set (eq1 := fun p => IZR low + IZR p * spread / IZR top).
  assert (TB : forall p, eq1 p - 1 < IZR (cell_threshold low top p) <= eq1 p) by (intros p; now apply threshold_bounds).
  assert (El : line = eq1 x / IZR SCALE).
  { unfold line, eq1, spread, share. rewrite minus_IZR, mult_IZR. field. lra. }
  enough (goal : eq1 x - 2 < chance_of_one points table x * IZR SCALE <= eq1 x).
  { rewrite El. split.
    - apply (Rmult_lt_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
    - apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra. }
  clear line El. unfold table. clear table. induction points as [|l [|r rest] IH]; [contradiction| |].
  { (* x is the last point *)
    simpl in HX. assert (x = l) as -> by lia. unfold chance_of_one. simpl. rewrite mean_const, share_times.
    specialize (TB l). lra. }
  destruct Inc as [Hlr Inc]. inversion_clear Rng as [|? ? Rl Rng']. inversion Rng' as [|? ? Rr _]. subst.
  assert (step : forall alpha, cell (l :: r :: rest) alpha x
          = if (r <=? x)%Z then S (cell (r :: rest) alpha x)
            else if ((r - x) * SCALE <=? alpha * (r - l))%Z then 1%nat else 0%nat) by reflexivity.
  unfold chance_of_one. destruct (Z.leb_spec r x) as [Hr|Hr].
  { (* further up *)
    erewrite mean_ext; [apply IH; [discriminate | assumption | assumption | simpl in *; lia]|].
    intros alpha _. now rewrite step. }
  assert (HI : (l <= x < r)%Z) by (simpl in HX; lia).
  rewrite (mean_ext _ (fun alpha => if ((r - x) * SCALE <=? alpha * (r - l))%Z
                                    then share (cell_threshold low top r) else share (cell_threshold low top l)))
    by (intros alpha _; rewrite step; now destruct (_ <=? _)%Z).
  rewrite mean_over_alphas by assumption. pose proof (share_of_alphas l r x HI) as SA.
  set (s := share (alphas_up l r x)) in *. set (rho := IZR (x - l) / IZR (r - l)) in *.
  assert (W0 : 0 < IZR (r - l)) by (apply IZR_lt; lia).
  rewrite Rmult_plus_distr_r, !Rmult_assoc, !share_times.
  set (tl := cell_threshold low top l) in *. set (tr := cell_threshold low top r) in *.
  replace (s * IZR tr + (1 - s) * IZR tl) with (IZR tl + s * (IZR tr - IZR tl)) by ring.
  replace (eq1 x) with (eq1 l + rho * (eq1 r - eq1 l)) by (unfold eq1, rho; rewrite !minus_IZR in *; field; lra).
  assert (0 <= l * (SCALE - 2 * low) / top)%Z by (apply Z.div_pos; nia).
  assert (r * (SCALE - 2 * low) / top <= SCALE - 2 * low)%Z by (apply Z.div_le_upper_bound; nia).
  assert (Mo : (tl <= tr <= tl + SCALE)%Z).
  { unfold tl, tr, cell_threshold. split; [apply Z.add_le_mono_l, Z.div_le_mono; nia | lia]. }
  destruct Mo as [M1 M2]. apply IZR_le in M1, M2. rewrite plus_IZR in M2.
  apply line_rounded_down with (w := 1 / IZR SCALE); auto; try apply TB.
  - unfold rho. split; [apply Rmult_le_pos; [apply IZR_le; lia | left; now apply Rinv_0_lt_compat]|].
    apply (Rmult_le_reg_r (IZR (r - l))); [assumption|]. field_simplify; [|lra]. apply IZR_le. lia.
  - apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
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
  intros HP HL HG. destruct (valid_points_range points HP) as [T0 [NE [_ Rng]]]. constructor; simpl; try assumption.
  intros t [<-|[]]. rewrite map_length. split; [reflexivity|].
  rewrite Forall_forall in *. intros T IT. apply in_map_iff in IT as [p [<- Ip]].
  specialize (Rng p Ip). destruct HL as [L1 L2]. unfold valid_threshold, cell_threshold. set (top := last points 0%Z) in *.
  assert (0 <= p * (SCALE - 2 * lo) / top)%Z by (apply Z.div_pos; nia).
  assert (p * (SCALE - 2 * lo) / top <= SCALE - 2 * lo)%Z by (apply Z.div_le_upper_bound; nia). lia.
Qed.
