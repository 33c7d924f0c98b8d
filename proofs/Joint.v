(** * Counters that share a limit (Theorem 7, exact) *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Rounding.
Import ListNotations.
Open Scope R_scope.

(** ** Products *)

Fixpoint prod {A} (l : list A) (f : A -> R) : R :=
  match l with
  | [] => 1
  | a :: rest => f a * prod rest f
  end.

Lemma prod_le {A} (l : list A) f g : (forall a, In a l -> 0 <= f a <= g a) -> 0 <= prod l f <= prod l g.
Proof.
  induction l as [|a l IH]; intros H; simpl; [lra|].
  specialize (IH (fun b Hb => H b (or_intror Hb))). pose proof (H a (or_introl eq_refl)).
  split; [apply Rmult_le_pos; lra | apply Rmult_le_compat; lra].
Qed.

Lemma prod_mult {A} (l : list A) f g : prod l (fun a => f a * g a) = prod l f * prod l g.
Proof. induction l as [|a l IH]; simpl; [lra | rewrite IH; ring]. Qed.

Lemma prod_exp {A} (l : list A) (k : A -> R) : prod l (fun a => exp (k a)) = exp (total l k).
Proof. induction l as [|a l IH]; simpl; [now rewrite exp_0 | now rewrite IH, exp_plus]. Qed.

Lemma prod_const {A} (l : list A) (c : R) : prod l (fun _ => c) = c ^ length l.
Proof. induction l as [|a l IH]; simpl; [reflexivity | now rewrite IH]. Qed.

Lemma prod_filter {A} (l : list A) (b : A -> bool) f : prod l (fun a => if b a then f a else 1) = prod (filter b l) f.
Proof. induction l as [|a l IH]; simpl; [reflexivity|]. destruct (b a); simpl; rewrite IH; ring. Qed.

(** ** The inequality, for chances of a 1 from l up to l + (1-2l) u, with u the part of the range in use *)

Section Inequality.
  Context {A : Type} (px py ux uy : A -> R).   (* chances of a 1 and parts in use, in the two cases *)

  Definition on_line (l : R) (a : A) : Prop :=
    l <= px a <= l + (1 - 2 * l) * ux a /\ l <= py a <= l + (1 - 2 * l) * uy a /\ 0 <= ux a <= 1 /\ 0 <= uy a <= 1.

  (** The chance of a vector of answers. *)
  Definition sends (p : A -> R) (ao : A * bool) : R := if snd ao then p (fst ao) else 1 - p (fst ao).
  Definition chance (p : A -> R) (aos : list (A * bool)) : R := prod aos (sends p).

  Lemma chances l ao : 0 < l <= 1 / 2 -> on_line l (fst ao) -> 0 <= sends px ao <= 1 /\ 0 <= sends py ao <= 1.
  Proof. intros Hl [H1 [H2 [H3 H4]]]. unfold sends. destruct (snd ao); repeat split; nra. Qed.

  Definition ones (aos : list (A * bool)) : list (A * bool) := filter snd aos.
  Definition zeros (aos : list (A * bool)) : list (A * bool) := filter (fun ao => negb (snd ao)) aos.

  (** A 1 gains at most 1 + g u in the numerator, a 0 at most 1/(1 - c u) in the denominator. *)
  Lemma ones_and_zeros l aos :
    0 < l <= 1 / 2 -> (forall ao, In ao aos -> on_line l (fst ao)) ->
    let g := (1 - 2 * l) / l in let c := (1 - 2 * l) / (1 - l) in
    chance px aos * prod (zeros aos) (fun ao => 1 - c * uy (fst ao))
    <= chance py aos * prod (ones aos) (fun ao => 1 + g * ux (fst ao)).
  Proof.
    intros Hl H g c. unfold chance, ones, zeros. rewrite <- !prod_filter, <- !prod_mult.
    apply prod_le. intros ao I. destruct (chances l ao Hl (H ao I)) as [CX CY].
    destruct (H ao I) as [Hp [Hq [Hx Hy]]]. unfold sends in *. destruct (snd ao); simpl negb.
    - assert (E : l * (1 + g * ux (fst ao)) = l + (1 - 2 * l) * ux (fst ao)) by (unfold g; field; lra).
      assert (0 <= g) by (unfold g; apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]). split; nra.
    - assert (E : (1 - l) * (1 - c * uy (fst ao)) = 1 - (l + (1 - 2 * l) * uy (fst ao))) by (unfold c; field; lra).
      assert (0 <= 1 - c * uy (fst ao)) by nra. split; nra.
  Qed.
End Inequality.

(** The ones do best when they share alike (the arithmetic and the geometric mean, from 1 + t <= e^t). *)
Lemma even_is_best {A} g s (xs : list A) u :
  0 <= g -> 0 <= s -> (forall a, In a xs -> 0 <= u a) -> total xs u <= s ->
  prod xs (fun a => 1 + g * u a) <= (1 + g * s / INR (length xs)) ^ length xs.
Proof.
  intros Hg Hs Hu Hsum. destruct xs as [|a0 xs0] eqn:Exs; [simpl; lra|]. rewrite <- Exs in *. set (r := length xs).
  assert (R0 : 0 < INR r) by (apply lt_0_INR; unfold r; rewrite Exs; simpl; lia).
  set (M := 1 + g * s / INR r).
  assert (M1 : 1 <= M).
  { unfold M. assert (0 <= g * s / INR r); [|lra]. apply Rmult_le_pos; [nra | left; now apply Rinv_0_lt_compat]. }
  set (k := fun a => (g * u a - (M - 1)) / M).
  apply Rle_trans with (prod xs (fun a => M * exp (k a))).
  { apply prod_le. intros a I. specialize (Hu a I). pose proof (exp_ineq1_le (k a)) as X.
    apply (Rmult_le_compat_l M) in X; [|lra].
    replace (M * (1 + k a)) with (1 + g * u a) in X by (unfold k; field; lra). split; [nra | exact X]. }
  rewrite prod_mult, prod_const, prod_exp. fold r.
  assert (K : total xs k <= 0).
  { unfold k. rewrite (total_ext xs _ (fun a => g / M * u a + - ((M - 1) / M))) by (intros; field; lra).
    rewrite total_plus, total_scal, total_const. fold r.
    replace (INR r * - ((M - 1) / M)) with (- (INR r * (M - 1)) * / M) by (field; lra).
    replace (INR r * (M - 1)) with (g * s) by (unfold M; field; lra).
    assert (I : 0 < / M) by (apply Rinv_0_lt_compat; lra). unfold Rdiv. assert (0 <= (s - total xs u) * (g * / M)); [|nra].
    apply Rmult_le_pos; [lra | nra]. }
  pose proof (exp_le _ _ K) as X. rewrite exp_0 in X. assert (0 < M ^ r) by (apply pow_lt; lra). nra.
Qed.

(** The zeros do best when the limit is heaped on as few as possible: k of them whole, and f of one more. Proof by
    induction: moving value from y to what is heaped already never raises the product. *)
Lemma heaped_is_worst {A} c k f (ys : list A) u :
  0 <= c <= 1 -> 0 <= f <= 1 -> (forall a, In a ys -> 0 <= u a <= 1) -> total ys u <= INR k + f ->
  (1 - c) ^ k * (1 - c * f) <= prod ys (fun a => 1 - c * u a).
Proof.
  intros Hc. revert k f. induction ys as [|a ys IH]; intros k f Hf Hy Hs; simpl in *.
  - assert (0 <= (1 - c) ^ k <= 1).
    { split; [apply pow_le; lra|]. apply Rle_trans with (1 ^ k); [apply pow_incr; lra | rewrite pow1; lra]. }
    assert (0 <= 1 - c * f <= 1) by nra. nra.
  - pose proof (Hy a (or_introl eq_refl)) as Y. specialize (fun k f Hf => IH k f Hf (fun z Hz => Hy z (or_intror Hz))).
    set (y := u a) in *. set (Q := prod ys _) in *.
    assert (step : forall j h d, (1 - c) ^ j * (1 - c * h) <= Q -> 0 <= d ->
                   (1 - c) ^ k * (1 - c * f) = (1 - c) ^ j * ((1 - c * y) * (1 - c * h) - c * c * d) ->
                   (1 - c) ^ k * (1 - c * f) <= (1 - c * y) * Q).
    { intros j h d HQ Hd ->. assert (0 <= (1 - c) ^ j) by (apply pow_le; lra).
      assert (0 <= (1 - c) ^ j * (c * c * d)) by (apply Rmult_le_pos; nra).
      assert (0 <= 1 - c * y) by nra. nra. }
    destruct (Rle_dec y f) as [L|L].
    + apply (step k (f - y) (y * (f - y))); [apply IH; lra | nra | ring].
    + destruct k as [|k].
      * exfalso. assert (0 <= total ys u) by (apply total_nonneg; intros z Hz; now apply Hy, or_intror). simpl in Hs. lra.
      * rewrite S_INR in Hs. apply (step k (1 + f - y) ((y - f) * (1 - y))); [apply IH; lra | nra | simpl; ring].
Qed.

(** What the figure must be at least, for r ones among t counters with a limit of B ranges. *)
Definition enough (l B : R) (t r : nat) (F : R) : Prop :=
  exists k f, 0 <= f <= 1 /\ Rmin B (INR (t - r)) <= INR k + f /\
    (1 + (1 - 2 * l) / l * Rmin B (INR r) / INR r) ^ r
    <= exp F * ((1 - (1 - 2 * l) / (1 - l)) ^ k * (1 - (1 - 2 * l) / (1 - l) * f)).

Lemma ones_zeros_length {A} (aos : list (A * bool)) : (length (ones aos) + length (zeros aos) = length aos)%nat.
Proof. unfold ones, zeros. induction aos as [|[a []] aos IH]; simpl; lia. Qed.

(** Parts in use of the ones, or of the zeros, are within the limit and within as many ranges. *)
Lemma part_of_limit {A} (aos : list (A * bool)) b (u : A -> R) B :
  (forall ao, In ao aos -> 0 <= u (fst ao) <= 1) -> total aos (fun ao => u (fst ao)) <= B ->
  total (filter b aos) (fun ao => u (fst ao)) <= Rmin B (INR (length (filter b aos))).
Proof.
  intros H HB. apply Rmin_glb.
  - eapply Rle_trans; [apply total_filter | exact HB]. intros ao I. now apply H.
  - rewrite <- (Rmult_1_r (INR _)), <- total_const. apply total_le. intros ao I. apply filter_In in I. now apply H.
Qed.

Theorem joint_limit {A} (px py ux uy : A -> R) l B F (aos : list (A * bool)) :
  0 < l <= 1 / 2 -> 0 <= B -> (forall ao, In ao aos -> on_line px py ux uy l (fst ao)) ->
  total aos (fun ao => ux (fst ao)) <= B -> total aos (fun ao => uy (fst ao)) <= B ->
  (forall r, (r <= length aos)%nat -> enough l B (length aos) r F) ->
  chance px aos <= exp F * chance py aos.
Proof.
  intros Hl HB H Hx Hy HF. pose proof (ones_and_zeros px py ux uy l aos Hl H) as OZ. cbv zeta in OZ.
  pose proof (ones_zeros_length aos) as PL. set (r := length (ones aos)) in *.
  destruct (HF r ltac:(lia)) as [k [f [Hf [Hk HE]]]].
  set (g := (1 - 2 * l) / l) in *. set (c := (1 - 2 * l) / (1 - l)) in *.
  assert (g0 : 0 <= g) by (unfold g; apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
  assert (c1 : 0 <= c < 1).
  { unfold c. split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
    apply (Rmult_lt_reg_r (1 - l)); [lra|]. field_simplify; lra. }
  assert (PX : prod (ones aos) (fun ao => 1 + g * ux (fst ao)) <= (1 + g * Rmin B (INR r) / INR r) ^ r).
  { apply even_is_best; auto.
    - apply Rmin_glb; [assumption | apply pos_INR].
    - intros ao I. apply filter_In in I as [I _]. now apply (H ao).
    - apply part_of_limit; [intros ao I; now apply (H ao) | assumption]. }
  assert (PZ : (1 - c) ^ k * (1 - c * f) <= prod (zeros aos) (fun ao => 1 - c * uy (fst ao))).
  { apply heaped_is_worst; auto; [lra| |].
    - intros ao I. apply filter_In in I as [I _]. now apply (H ao).
    - eapply Rle_trans; [|exact Hk]. replace (length aos - r)%nat with (length (zeros aos)) by lia.
      apply part_of_limit; [intros ao I; now apply (H ao) | assumption]. }
  assert (Nx : 0 <= chance px aos) by (apply (prod_le aos _ (fun _ => 1)); intros ao I; now apply (chances px py ux uy l), H).
  assert (Ny : 0 <= chance py aos) by (apply (prod_le aos _ (fun _ => 1)); intros ao I; now apply (chances px py ux uy l), H).
  set (Q := (1 - c) ^ k * (1 - c * f)) in *.
  assert (D0 : 0 < Q) by (apply Rmult_lt_0_compat; [apply pow_lt; lra | nra]).
  apply (Rmult_le_reg_r Q); [assumption|]. set (Z := prod (zeros aos) _) in *. set (X := prod (ones aos) _) in *.
  apply Rle_trans with (chance px aos * Z); [now apply Rmult_le_compat_l|].
  apply Rle_trans with (chance py aos * (exp F * Q)); [|right; ring].
  eapply Rle_trans; [exact OZ|]. apply Rmult_le_compat_l; [assumption | lra].
Qed.

(** ** Unlike counters: the Lagrangian bound, at any prices a, b >= 0 of the two limits *)

(** What counter a gains above the prices, with [cap] the part of its range that the limit leaves. *)
Definition gains_at_most (l cap top a b gain : R) : Prop :=
  (forall x, 0 <= x <= cap -> 1 + (1 - 2 * l) / l * x <= exp (gain + a * (top * x))) /\
  (forall y, 0 <= y <= cap -> 1 <= exp (gain + b * (top * y)) * (1 - (1 - 2 * l) / (1 - l) * y)).

Theorem joint_limit_by_prices {A} (px py ux uy l top cap gain : A -> R) a b M (aos : list (A * bool)) :
  0 <= a -> 0 <= b ->
  (forall ao, In ao aos -> let q := fst ao in
     0 < l q <= 1 / 2 /\ on_line px py ux uy (l q) q /\ 0 <= top q /\ ux q <= cap q /\ uy q <= cap q /\
     gains_at_most (l q) (cap q) (top q) a b (gain q)) ->
  total aos (fun ao => top (fst ao) * ux (fst ao)) <= M -> total aos (fun ao => top (fst ao) * uy (fst ao)) <= M ->
  chance px aos <= exp ((a + b) * M + total aos (fun ao => gain (fst ao))) * chance py aos.
Proof.
  intros Ha Hb H Sx Sy.
  set (cost := fun ao : A * bool =>
    gain (fst ao) + (a * (top (fst ao) * ux (fst ao)) * (if snd ao then 1 else 0)
                     + b * (top (fst ao) * uy (fst ao)) * (if snd ao then 0 else 1))).
  assert (E : prod aos (fun ao => exp (cost ao) * sends py ao) = exp (total aos cost) * chance py aos)
    by now rewrite prod_mult, prod_exp.
  assert (N : 0 <= chance py aos).
  { apply (prod_le aos _ (fun _ => 1)). intros ao I. destruct (H ao I) as [Hl [HC _]]. now apply (chances px py ux uy (l (fst ao))). }
  apply Rle_trans with (exp (total aos cost) * chance py aos).
  - rewrite <- E. apply prod_le. intros [q o] I. destruct (H _ I) as [Hl [HC [HT [Cx [Cy [H1 H0]]]]]]. simpl in *.
    pose proof (chances px py ux uy (l q) (q, o) Hl HC) as [CX CY]. split; [apply CX|].
    destruct HC as [Hp [Hq [Hx Hy]]]. unfold sends, cost in *. simpl in *. destruct o.
    + specialize (H1 _ (conj (proj1 Hx) Cx)). rewrite Rmult_0_r, Rmult_1_r, Rplus_0_r.
      assert (X : l q * (1 + (1 - 2 * l q) / l q * ux q) = l q + (1 - 2 * l q) * ux q) by (field; lra).
      set (e := exp (gain q + a * (top q * ux q))) in *. assert (0 < e) by apply exp_pos.
      apply Rle_trans with (l q * e); [|rewrite (Rmult_comm e); apply Rmult_le_compat_r; lra].
      rewrite <- X in Hp. apply Rle_trans with (1 := proj2 Hp). apply Rmult_le_compat_l; lra.
    + specialize (H0 _ (conj (proj1 Hy) Cy)). rewrite Rmult_0_r, Rmult_1_r, Rplus_0_l.
      assert (X : (1 - l q) * (1 - (1 - 2 * l q) / (1 - l q) * uy q) = 1 - (l q + (1 - 2 * l q) * uy q)) by (field; lra).
      set (e := exp (gain q + b * (top q * uy q))) in *. assert (0 < e) by apply exp_pos.
      apply Rle_trans with (e * (1 - (l q + (1 - 2 * l q) * uy q))); [|apply Rmult_le_compat_l; lra]. rewrite <- X.
      apply (Rmult_le_compat_l (1 - l q)) in H0; [|lra]. lra.
  - apply Rmult_le_compat_r; [assumption|]. apply exp_le.
    assert (S : total aos cost <= total aos (fun ao => gain (fst ao) +
        (a * (top (fst ao) * ux (fst ao)) + b * (top (fst ao) * uy (fst ao))))).
    { apply total_le. intros ao I. destruct (H ao I) as [_ [[_ [_ [Px Py]]] [HT _]]]. unfold cost.
      assert (0 <= a * (top (fst ao) * ux (fst ao))) by (repeat apply Rmult_le_pos; lra).
      assert (0 <= b * (top (fst ao) * uy (fst ao))) by (repeat apply Rmult_le_pos; lra). destruct (snd ao); lra. }
    rewrite !total_plus, !total_scal in S. nra.
Qed.

(** Whether a gain is enough need be looked at in three points only: a tangent for ones, both ends for zeros. *)
Lemma ones_by_tangent g k a x0 m :
  1 <= exp (k + a * x0) * (1 + a * (0 - x0)) -> 1 + g * m <= exp (k + a * x0) * (1 + a * (m - x0)) -> 0 < m ->
  forall x, 0 <= x <= m -> 1 + g * x <= exp (k + a * x).
Proof.
  intros H0 H1 Hm x Hx. replace (k + a * x) with (k + a * x0 + a * (x - x0)) by ring. rewrite exp_plus.
  apply Rle_trans with (exp (k + a * x0) * (1 + a * (x - x0))).
  - set (e := exp (k + a * x0)) in *. apply (Rmult_le_reg_r m); [assumption|].
    assert (0 <= (m - x) * (e * (1 + a * (0 - x0)) - 1)) by (apply Rmult_le_pos; lra).
    assert (0 <= x * (e * (1 + a * (m - x0)) - (1 + g * m))) by (apply Rmult_le_pos; lra). nra.
  - apply Rmult_le_compat_l; [left; apply exp_pos | apply exp_ineq1_le].
Qed.

Lemma exp_convex t a : 0 <= t <= 1 -> exp (t * a) <= 1 - t + t * exp a.
Proof.
  intros Ht. pose proof (exp_ineq1_le ((1 - t) * a)) as A. pose proof (exp_ineq1_le (- (t * a))) as B.
  pose proof (exp_pos (t * a)) as P.
  assert (EA : exp a = exp (t * a) * exp ((1 - t) * a)) by (rewrite <- exp_plus; f_equal; ring).
  assert (EB : 1 = exp (t * a) * exp (- (t * a))) by (rewrite <- exp_plus, Rplus_opp_r, exp_0; reflexivity).
  rewrite EA. set (e := exp (t * a)) in *.
  assert (t * (e * (1 + (1 - t) * a)) <= t * (e * exp ((1 - t) * a))) by (repeat apply Rmult_le_compat_l; lra).
  assert ((1 - t) * (e * (1 + - (t * a))) <= (1 - t) * (e * exp (- (t * a)))) by (repeat apply Rmult_le_compat_l; lra).
  nra.
Qed.

Lemma zeros_by_ends c k a m :
  0 < m -> 0 <= c * m < 1 -> 0 <= k -> 1 <= exp (k + a * m) * (1 - c * m) ->
  forall y, 0 <= y <= m -> 1 <= exp (k + a * y) * (1 - c * y).
Proof.
  intros Hm Hc Hk H y Hy. set (b := 1 - c * m) in *. set (t := y / m).
  assert (Et : t * m = y) by (unfold t; field; lra). assert (t01 : 0 <= t <= 1) by nra.
  assert (LN : exp (ln b) = b) by (apply exp_ln; unfold b; lra).
  pose proof (exp_convex t (ln b) t01) as C. rewrite LN in C.
  assert (C' : exp (t * ln b) <= 1 - c * y) by (rewrite <- Et; unfold b in *; nra).
  apply Rle_trans with (exp (k + a * y) * exp (t * ln b)).
  - rewrite <- exp_plus, <- exp_0. apply exp_le.
    assert (L : 0 <= k + a * m + ln b).
    { apply Rnot_lt_le. intros N. apply exp_increasing in N. rewrite exp_0, exp_plus, LN in N. lra. }
    rewrite <- Et. nra.
  - apply Rmult_le_compat_l; [left; apply exp_pos | assumption].
Qed.

(** ** From chances to programs *)

(** [X] sends what [U] sends with chance p, and what [V] sends otherwise. *)
Definition mixture {A} (p : R) (U V X : program A) : Prop := forall f, E X f = p * E U f + (1 - p) * E V f.

Theorem loss_of_mixtures {Q A} F (qs : list Q) (px py : Q -> R) (one zero X Y : Q -> program A) :
  (forall q, In q qs -> mixture (px q) (one q) (zero q) (X q) /\ mixture (py q) (one q) (zero q) (Y q)) ->
  (forall aos, map fst aos = qs -> chance px aos <= exp F * chance py aos) ->
  loss F (each (map X qs)) (each (map Y qs)).
Proof.
  intros H HC f F0. rewrite <- (Rmult_1_l (E (each (map X qs)) f)).
  assert (S : forall aos, map fst aos = qs -> 1 * chance px aos <= exp F * chance py aos) by (intros; rewrite Rmult_1_l; auto).
  clear HC. revert S F0. generalize 1 (exp F). revert f. induction qs as [|q qs IH]; intros f a b S F0.
  - specialize (S [] eq_refl). unfold chance in S. simpl in *. specialize (F0 []). nra.
  - destruct (H q (or_introl eq_refl)) as [HX HY]. simpl map. rewrite !E_each_cons, HX, HY.
    set (g := fun x => E (each (map X qs)) (fun l => f (x :: l))). set (g' := fun x => E (each (map Y qs)) (fun l => f (x :: l))).
    assert (branch : forall o x, a * sends px (q, o) * g x <= b * sends py (q, o) * g' x).
    { intros o x. apply (IH (fun d Hd => H d (or_intror Hd))); [|intros; apply F0]. intros aos L.
      specialize (S ((q, o) :: aos)). unfold chance in *. simpl in S. rewrite !Rmult_assoc. apply S. now rewrite L. }
    rewrite !Rmult_plus_distr_l, <- !Rmult_assoc, <- !E_scal.
    apply Rplus_le_compat; apply E_le; [exact (branch true) | exact (branch false)].
Qed.

(** ** Means on a device *)

Definition valid_counter (c : counter) : Prop :=
  valid_points (points c) /\ valid_low (counter_low c) /\ valid_flip (counter_flip c).

Definition remembered_one (c : counter) (x : Z) : R :=
  chance_of_one (points c) (map (cell_threshold (counter_low c) (top c)) (points c)) x.

(** The answers of a mean whose value stays: its remembered bit over alphas, then the flips. *)
Lemma mean_is_a_mixture c x n : valid_counter c ->
  let sent_of b := l <- sent (counter_flip c) (repeat b n) ;; Ret [l] in
  mixture (remembered_one c x) (sent_of true) (sent_of false) (mean_held n c x).
Proof.
  intros [HP [HL HG]] sent_of f. pose proof (mean_metric_is_valid _ _ _ HP HL HG) as V.
  destruct (valid_points_range _ HP) as [_ [NE _]]. set (table := map (cell_threshold (counter_low c) (top c)) (points c)).
  unfold mean_held, answers. rewrite E_bind. simpl. set (a := E (sent_of true) f). set (b := E (sent_of false) f).
  rewrite (mean_ext _ (fun alpha => b + (a - b) * share (nth (cell (points c) alpha x) table 0%Z))).
  { rewrite mean_plus, mean_const, mean_scal. unfold remembered_one, chance_of_one. fold table. ring. }
  intros alpha _. unfold answers_of_classes. simpl map. fold table.
  replace (map (cell (points c) alpha) (repeat x n)) with (repeat (cell (points c) alpha x) n)
    by (clear; induction n as [|n IH]; simpl; [reflexivity | now rewrite IH]).
  rewrite E_each_cons. simpl each. pose proof (cell_bound (points c) alpha x NE) as B.
  rewrite (E_column_constant table) by (unfold table; now rewrite map_length).
  rewrite E_constant_bit; [unfold a, b, sent_of; rewrite !E_bind; simpl; ring|].
  apply (in_scale (counter_low c)); [assumption|]. apply (valid_nth (mean_of c)); auto. simpl. auto.
Qed.

(** In one round the flip is part of the chance: l' = l (1-g) + (1-l) g and so on. *)
Lemma mean_in_one_round c x : valid_counter c ->
  mixture (remembered_one c x * (1 - 2 * share (counter_flip c)) + share (counter_flip c))
          (Ret [[true]]) (Ret [[false]]) (mean_held 1 c x).
Proof.
  intros V f. rewrite (mean_is_a_mixture c x 1 V f). destruct V as [_ [_ HG]]. simpl repeat.
  rewrite !E_bind, !E_sent_cons by assumption. simpl. unfold weight. simpl. ring.
Qed.

(** ** From chances to the claims of a group *)

(** The chance of a remembered 1 is on Eq. 1 or below it: alphas and inner thresholds are rounded down. *)
Definition bounded (l : R) (c : counter) (p : Z -> R) : Prop :=
  forall x, (0 <= x <= top c)%Z -> l <= p x <= l + (1 - 2 * l) * (IZR x / IZR (top c)).

(** Whatever the chances, if bounded: F for every pair of vectors within the limit. *)
Definition joint_bound (l : counter -> R) (limit : Z) (cs : list counter) (F : R) : Prop :=
  forall p, (forall c, In c cs -> bounded (l c) c (p c)) ->
  forall aos, map (fun ao => counts (fst ao)) aos = cs -> within_limit limit (map fst aos) ->
  chance (fun t => p (counts t) (value_x t)) aos <= exp F * chance (fun t => p (counts t) (value_y t)) aos.

Definition low_kept (c : counter) : R := share (counter_low c).
Definition low_seen (c : counter) : R := share (counter_low c) * (1 - 2 * share (counter_flip c)) + share (counter_flip c).

Lemma lows_bounds c : valid_counter c -> 0 < low_kept c <= 1 / 2 /\ 0 < low_seen c <= 1 / 2.
Proof.
  intros [_ [HL HG]]. pose proof (share_low _ HL). pose proof (share_flip _ HG). unfold low_kept, low_seen. nra.
Qed.

Lemma chance_line c : valid_counter c -> bounded (low_kept c) c (remembered_one c).
Proof.
  intros [HP [HL HG]] x Hx. destruct (valid_points_range _ HP) as [T0 [NE [H0 Rng]]]. unfold low_kept. split.
  - unfold remembered_one, chance_of_one. rewrite <- (mean_const (share (counter_low c))). apply mean_le. intros alpha _.
    apply (share_bounds (counter_low c)), (valid_nth (mean_of c)); [now apply mean_metric_is_valid | simpl; auto|].
    now apply cell_bound.
  - pose proof (one_bit_mean_over_alphas _ (top c) _ x HL T0 NE (proj1 (proj2 HP)) Rng) as O.
    rewrite H0 in O. specialize (O Hx). cbv zeta in O. unfold remembered_one. rewrite Rmult_comm. lra.
Qed.

Definition group_loss (F : R) (n : nat) (ms : list member) : Prop :=
  loss F (each (map (fun t => mean_held n (counts t) (value_x t)) ms)) (each (map (fun t => mean_held n (counts t) (value_y t)) ms)).

(** Claim (joint_limit_loss, rounds="one"). *)
Lemma round_of_group limit cs F ms :
  (forall c, In c cs -> valid_counter c) -> joint_bound low_seen limit cs F ->
  map counts ms = cs -> within_limit limit ms -> group_loss F 1 ms.
Proof.
  intros HV HJ <- HW. set (p := fun c x => remembered_one c x * (1 - 2 * share (counter_flip c)) + share (counter_flip c)).
  assert (I : forall t, In t ms -> valid_counter (counts t)) by (intros t It; now apply HV, in_map).
  apply loss_of_mixtures with (fun t => p (counts t) (value_x t)) (fun t => p (counts t) (value_y t))
                              (fun _ => Ret [[true]]) (fun _ => Ret [[false]]).
  - intros t It. split; now apply mean_in_one_round, I.
  - intros aos <-. apply HJ; [|now rewrite map_map|assumption]. intros c Ic x Hx. pose proof (HV c Ic) as V.
    pose proof (chance_line c V x Hx) as C. destruct V as [_ [HL HG]].
    pose proof (share_flip _ HG) as g2. unfold p, low_seen. unfold low_kept in C. split; [nra|].
    apply Rle_trans with ((share (counter_low c) + (1 - 2 * share (counter_low c)) * (IZR x / IZR (top c)))
                          * (1 - 2 * share (counter_flip c)) + share (counter_flip c)); [nra | right; ring].
Qed.

(** Claim (joint_limit_loss, rounds="all"). *)
Lemma held_of_group limit cs F n ms :
  (forall c, In c cs -> valid_counter c) -> joint_bound low_kept limit cs F ->
  map counts ms = cs -> within_limit limit ms -> group_loss F n ms.
Proof.
  intros HV HJ <- HW. assert (I : forall t, In t ms -> valid_counter (counts t)) by (intros t It; now apply HV, in_map).
  set (sent_of := fun (b : bool) t => l <- sent (counter_flip (counts t)) (repeat b n) ;; Ret [l]).
  apply loss_of_mixtures with (fun t => remembered_one (counts t) (value_x t)) (fun t => remembered_one (counts t) (value_y t))
                              (sent_of true) (sent_of false).
  - intros t It. split; now apply mean_is_a_mixture, I.
  - intros aos <-. apply HJ; [|now rewrite map_map|assumption]. intros c Ic. now apply chance_line, HV.
Qed.

(** Members in the terms of the inequality: chances on a line, parts of the range in use. *)
Definition part_x (t : member) : R := IZR (value_x t) / IZR (top (counts t)).
Definition part_y (t : member) : R := IZR (value_y t) / IZR (top (counts t)).

Lemma members_on_line l limit p ms t :
  (forall u, In u ms -> valid_counter (counts u)) -> (forall c, In c (map counts ms) -> bounded (l c) c (p c)) ->
  within_limit limit ms -> In t ms ->
  0 < IZR (top (counts t)) /\
  on_line (fun t => p (counts t) (value_x t)) (fun t => p (counts t) (value_y t)) part_x part_y (l (counts t)) t.
Proof.
  intros HV HB [HW _] I. destruct (HW t I) as [Wx Wy]. destruct (valid_points_range _ (proj1 (HV t I))) as [T0 _].
  apply IZR_lt in T0. change (0 < IZR (top (counts t))) in T0. pose proof (HB _ (in_map counts _ _ I)) as Ht.
  assert (near : forall z, (0 <= z <= top (counts t))%Z -> 0 <= IZR z / IZR (top (counts t)) <= 1).
  { intros z [Z0 Z1]. apply IZR_le in Z0, Z1. split; [apply Rmult_le_pos; [assumption | left; now apply Rinv_0_lt_compat]|].
    apply (Rmult_le_reg_r (IZR (top (counts t)))); [assumption|]. field_simplify; lra. }
  split; [assumption|]. repeat split; try (now apply Ht); now apply near.
Qed.

Lemma total_of_values (l : list member) f : total l (fun t => IZR (f t)) = IZR (total_of (map f l)).
Proof. induction l as [|t l IH]; simpl; [reflexivity | now rewrite IH, plus_IZR]. Qed.

(** Counters alike. *)
Theorem joint_bound_of_alike l limit c t F :
  valid_counter c -> 0 < l c <= 1 / 2 -> (0 <= limit)%Z ->
  (forall r, (r <= t)%nat -> enough (l c) (IZR limit / IZR (top c)) t r F) -> joint_bound l limit (repeat c t) F.
Proof.
  intros HV Hl Hlim HE p HB aos Ec HW. set (B := IZR limit / IZR (top c)) in *.
  assert (Et : length aos = t) by (apply (f_equal (@length counter)) in Ec; now rewrite map_length, repeat_length in Ec).
  assert (all : forall u, In u (map fst aos) -> counts u = c).
  { intros u I. apply (repeat_spec t). rewrite <- Ec, <- map_map. now apply in_map. }
  assert (T0 : 0 < IZR (top c)) by (apply IZR_lt, (valid_points_range _ (proj1 HV))).
  assert (I0 : 0 < / IZR (top c)) by now apply Rinv_0_lt_compat.
  assert (fits : forall f, (total_of (map f (map fst aos)) <= limit)%Z ->
            total aos (fun ao => IZR (f (fst ao)) / IZR (top (counts (fst ao)))) <= B).
  { intros f S. rewrite (total_ext _ _ (fun ao => / IZR (top c) * IZR (f (fst ao)))).
    - rewrite total_scal, <- (total_map fst aos (fun u => IZR (f u))), total_of_values. unfold B, Rdiv. rewrite Rmult_comm.
      apply Rmult_le_compat_r; [lra | now apply IZR_le].
    - intros ao I. rewrite (all (fst ao)) by now apply in_map. unfold Rdiv. ring. }
  apply joint_limit with (ux := part_x) (uy := part_y) (l := l c) (B := B); auto.
  - apply Rmult_le_pos; [now apply IZR_le | lra].
  - intros ao I. apply (in_map fst) in I. rewrite <- (all (fst ao)) by assumption.
    apply (members_on_line l limit p (map fst aos)); auto; [intros u Iu; now rewrite all|]. now rewrite map_map, Ec.
  - apply (fits value_x), HW.
  - apply (fits value_y), HW.
  - rewrite Et. exact HE.
Qed.

Lemma one_of_total (l : list member) f t :
  (forall u, In u l -> (0 <= f u)%Z) -> In t l -> (f t <= total_of (map f l))%Z.
Proof.
  intros H I.
  assert (N : forall l', (forall u, In u l' -> (0 <= f u)%Z) -> (0 <= total_of (map f l'))%Z).
  { clear. induction l' as [|u l' IH]; intros H; simpl; [lia|]. specialize (IH (fun v Iv => H v (or_intror Iv))).
    pose proof (H u (or_introl eq_refl)). lia. }
  induction l as [|u l IH]; [destruct I|]. simpl.
  pose proof (H u (or_introl eq_refl)). pose proof (N l (fun v Iv => H v (or_intror Iv))).
  destruct I as [->|I]; [lia|]. specialize (IH (fun v Iv => H v (or_intror Iv)) I). lia.
Qed.

(** Unlike counters, each with the gain that it has at the prices. *)
Theorem joint_bound_of_unlike l limit cs a b gain F :
  (forall c, In c cs -> valid_counter c) -> 0 <= a -> 0 <= b ->
  (forall c, In c cs -> 0 < l c <= 1 / 2 /\
     gains_at_most (l c) (Rmin 1 (IZR limit / IZR (top c))) (IZR (top c)) a b (gain c)) ->
  (a + b) * IZR limit + total cs gain <= F -> joint_bound l limit cs F.
Proof.
  intros HV Ha Hb HG HF p HB aos <- HW. rewrite <- (map_map fst counts) in *.
  assert (V : forall u, In u (map fst aos) -> valid_counter (counts u)) by (intros; now apply HV, in_map).
  pose proof (fun u => members_on_line l limit p (map fst aos) u V HB HW) as L. destruct HW as [HW [Wx Wy]].
  assert (spent : forall f, (total_of (map f (map fst aos)) <= limit)%Z ->
            total aos (fun ao => IZR (top (counts (fst ao))) * (IZR (f (fst ao)) / IZR (top (counts (fst ao))))) <= IZR limit).
  { intros f S. rewrite (total_ext _ _ (fun ao => IZR (f (fst ao)))).
    - rewrite <- (total_map fst aos (fun u => IZR (f u))), total_of_values. now apply IZR_le.
    - intros ao I. destruct (L (fst ao) (in_map fst _ _ I)) as [T0 _]. field. lra. }
  assert (capped : forall f u, In u (map fst aos) -> (forall v, In v (map fst aos) -> 0 <= f v <= top (counts v))%Z ->
            (total_of (map f (map fst aos)) <= limit)%Z ->
            IZR (f u) / IZR (top (counts u)) <= Rmin 1 (IZR limit / IZR (top (counts u)))).
  { intros f u Iu H S. destruct (L u Iu) as [T0 _]. pose proof (one_of_total _ f u (fun v Iv => proj1 (H v Iv)) Iu).
    assert (I0 : 0 < / IZR (top (counts u))) by now apply Rinv_0_lt_compat. apply Rmin_glb.
    - rewrite <- (Rinv_r (IZR (top (counts u)))) by lra. apply Rmult_le_compat_r; [lra|]. apply IZR_le, H, Iu.
    - apply Rmult_le_compat_r; [lra|]. apply IZR_le. lia. }
  assert (N : 0 <= chance (fun t => p (counts t) (value_y t)) aos).
  { apply (prod_le aos _ (fun _ => 1)). intros ao I. apply (in_map fst) in I.
    apply (chances (fun t => p (counts t) (value_x t)) _ part_x part_y (l (counts (fst ao)))); [now apply HG, in_map | now apply L]. }
  eapply Rle_trans; [apply (joint_limit_by_prices (fun t => p (counts t) (value_x t)) (fun t => p (counts t) (value_y t)) part_x part_y
    (fun t => l (counts t)) (fun t => IZR (top (counts t))) (fun t => Rmin 1 (IZR limit / IZR (top (counts t)))) (fun t => gain (counts t)) a b (IZR limit)); auto|].
  - intros ao I q. apply (in_map fst) in I. destruct (L q I) as [T0 O]. destruct (HG (counts q)) as [Hl Hg]; [now apply in_map|].
    split; [assumption|]. split; [assumption|]. split; [lra|].
    split; [apply (capped value_x); auto; intros; now apply HW|]. split; [apply (capped value_y); auto; intros; now apply HW|]. assumption.
  - apply (spent value_x), Wx.
  - apply (spent value_y), Wy.
  - apply Rmult_le_compat_r; [assumption|]. apply exp_le. eapply Rle_trans; [|exact HF].
    rewrite !total_map. apply Rle_refl.
Qed.
