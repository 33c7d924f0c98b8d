(** * Counters that share a limit (Theorem 7, exact) *)

From Coq Require Import Reals ZArith QArith Qreals List Lia Lra Psatz Bool Arith.
From Reticent Require Import Definitions Draws Bits Device Histories Rounding.
Import ListNotations.
Open Scope R_scope.

(** ** The inequality, for chances of a 1 from l up to l + (1-2l) x, with x the part of the range in use *)

(** One counter in two cases: its chance of a 1, and (at most) the part of its range that is in use. *)
Record compared := { chance_x : R; chance_y : R; part_x : R; part_y : R }.

Definition compared_within (l : R) (c : compared) : Prop :=
  l <= chance_x c <= l + (1 - 2 * l) * part_x c /\ l <= chance_y c <= l + (1 - 2 * l) * part_y c /\
  0 <= part_x c <= 1 /\ 0 <= part_y c <= 1.

(** The chance of a vector of answers. *)
Fixpoint chance (ps : list R) (os : list bool) : R :=
  match ps, os with
  | [], [] => 1
  | p :: ps', o :: os' => (if o then p else 1 - p) * chance ps' os'
  | _, _ => 0
  end.

Fixpoint product (l : list R) : R := match l with [] => 1 | a :: r => a * product r end.
Fixpoint sum (l : list R) : R := match l with [] => 0 | a :: r => a + sum r end.

(** The parts of the counters that answer [b]. *)
Fixpoint parts (b : bool) (part : compared -> R) (cs : list compared) (os : list bool) : list R :=
  match cs, os with
  | c :: cs', o :: os' => if eqb b o then part c :: parts b part cs' os' else parts b part cs' os'
  | _, _ => []
  end.

Lemma chance_nonneg {A} (cs : list A) os (p : A -> R) :
  (forall c, In c cs -> 0 <= p c <= 1) -> 0 <= chance (map p cs) os.
Proof.
  intros H. revert os. induction cs as [|c cs IH]; intros [|o os]; simpl; try lra.
  pose proof (H c (or_introl eq_refl)). specialize (IH (fun d Hd => H d (or_intror Hd)) os).
  apply Rmult_le_pos; [destruct o; lra | assumption].
Qed.

Lemma compared_chances l c :
  0 < l <= 1 / 2 -> compared_within l c ->
  l <= chance_x c <= 1 - l /\ l <= chance_y c <= 1 - l /\ 0 <= chance_x c <= 1 /\ 0 <= chance_y c <= 1.
Proof. intros Hl [H1 [H2 [H3 H4]]]. repeat split; nra. Qed.

(** A 1 gains at most 1 + g x in the numerator, a 0 at most 1/(1 - c y) in the denominator. *)
Lemma ones_and_zeros l cs os :
  0 < l <= 1 / 2 -> (forall c, In c cs -> compared_within l c) ->
  let g := (1 - 2 * l) / l in let c := (1 - 2 * l) / (1 - l) in
  chance (map chance_x cs) os * product (map (fun y => 1 - c * y) (parts false part_y cs os))
  <= chance (map chance_y cs) os * product (map (fun x => 1 + g * x) (parts true part_x cs os)).
Proof.
  intros Hl H g c. revert os. induction cs as [|k cs IH]; intros [|o os]; simpl; try lra.
  specialize (IH (fun d Hd => H d (or_intror Hd)) os).
  pose proof (H k (or_introl eq_refl)) as Hk. destruct (compared_chances l k Hl Hk) as [K1 [K2 _]].
  destruct Hk as [Hp [Hq [Hx Hy]]].
  assert (N1 : 0 <= chance (map chance_x cs) os).
  { apply chance_nonneg. intros d Hd. apply (compared_chances l d Hl). apply H. now right. }
  assert (N2 : 0 <= chance (map chance_y cs) os).
  { apply chance_nonneg. intros d Hd. apply (compared_chances l d Hl). apply H. now right. }
  set (A := chance (map chance_x cs) os) in *. set (B := chance (map chance_y cs) os) in *.
  assert (g0 : 0 <= g) by (unfold g; apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
  set (Z := product (map (fun y => 1 - c * y) (parts false part_y cs os))) in *.
  set (O := product (map (fun x => 1 + g * x) (parts true part_x cs os))) in *.
  assert (O0 : 0 <= O).
  { unfold O. clear - g0 H. revert os. induction cs as [|d cs IH]; intros [|o os]; simpl; try lra.
    assert (P := H d (or_intror (or_introl eq_refl))). destruct P as [_ [_ [P _]]].
    destruct o; simpl; [apply Rmult_le_pos; [nra|]|]; apply IH; intros e He; apply H; simpl in *; tauto. }
  destruct o; simpl; fold Z O.
  - assert (E : l * (1 + g * part_x k) = l + (1 - 2 * l) * part_x k) by (unfold g; field; lra).
    assert (S : chance_x k <= chance_y k * (1 + g * part_x k)) by nra.
    replace (chance_x k * A * Z) with (chance_x k * (A * Z)) by ring.
    replace (chance_y k * B * ((1 + g * part_x k) * O)) with (chance_y k * (1 + g * part_x k) * (B * O)) by ring.
    apply Rle_trans with (chance_x k * (B * O)); [apply Rmult_le_compat_l; lra|].
    apply Rmult_le_compat_r; [now apply Rmult_le_pos | assumption].
  - assert (E : (1 - l) * (1 - c * part_y k) = 1 - (l + (1 - 2 * l) * part_y k)) by (unfold c; field; lra).
    assert (c1 : 0 <= c <= 1).
    { unfold c. split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
      apply (Rmult_le_reg_r (1 - l)); [lra|]. field_simplify; lra. }
    assert (S : (1 - chance_x k) * (1 - c * part_y k) <= 1 - chance_y k).
    { apply Rle_trans with ((1 - l) * (1 - c * part_y k)); [apply Rmult_le_compat_r; nra | lra]. }
    replace ((1 - chance_x k) * A * ((1 - c * part_y k) * Z))
      with ((1 - chance_x k) * (1 - c * part_y k) * (A * Z)) by ring.
    replace ((1 - chance_y k) * B * O) with ((1 - chance_y k) * (B * O)) by ring.
    apply Rle_trans with ((1 - chance_x k) * (1 - c * part_y k) * (B * O)).
    + apply Rmult_le_compat_l; [apply Rmult_le_pos; nra | assumption].
    + apply Rmult_le_compat_r; [|assumption].
      now apply Rmult_le_pos.
Qed.

(** The ones do best when they share alike (the arithmetic and the geometric mean, from 1 + u <= e^u). *)
Lemma even_is_best g s xs :
  0 <= g -> 0 <= s -> (forall x, In x xs -> 0 <= x) -> sum xs <= s ->
  product (map (fun x => 1 + g * x) xs) <= (1 + g * s / INR (length xs)) ^ length xs.
Proof.
  intros Hg Hs Hx Hsum. destruct xs as [|x0 xs0]; [simpl; lra|].
  set (xs := x0 :: xs0) in *. set (r := length xs).
  assert (R0 : 0 < INR r) by (apply lt_0_INR; unfold r, xs; simpl; lia).
  set (A := 1 + g * s / INR r).
  assert (A1 : 1 <= A).
  { unfold A. assert (0 <= g * s / INR r); [|lra].
    apply Rmult_le_pos; [now apply Rmult_le_pos | left; now apply Rinv_0_lt_compat]. }
  assert (K : forall l, (forall x, In x l -> 0 <= x) ->
              product (map (fun x => 1 + g * x) l)
              <= A ^ length l * exp ((g * sum l - INR (length l) * (A - 1)) / A)).
  { induction l as [|x l IH]; intros Hl; [simpl; rewrite Rmult_0_r, Rmult_0_l, Rminus_0_r; unfold Rdiv; rewrite Rmult_0_l, exp_0; lra|].
    specialize (IH (fun y Hy => Hl y (or_intror Hy))). pose proof (Hl x (or_introl eq_refl)).
    change (length (x :: l)) with (S (length l)). rewrite S_INR.
    replace ((g * sum (x :: l) - (INR (length l) + 1) * (A - 1)) / A)
      with ((g * x - (A - 1)) / A + (g * sum l - INR (length l) * (A - 1)) / A) by (simpl; field; lra).
    rewrite exp_plus. simpl.
    assert (one : 1 + g * x <= A * exp ((g * x - (A - 1)) / A)).
    { pose proof (exp_ineq1_le ((g * x - (A - 1)) / A)) as I.
      apply (Rmult_le_compat_l A) in I; [|lra].
      replace (A * (1 + (g * x - (A - 1)) / A)) with (1 + g * x) in I by (field; lra). exact I. }
    assert (P0 : 0 <= product (map (fun x => 1 + g * x) l)).
    { clear - Hg Hl. induction l as [|y l IH]; simpl; [lra|]. apply Rmult_le_pos.
      - assert (0 <= y) by (apply Hl; simpl; auto). nra.
      - apply IH. intros z Hz. apply Hl. simpl in *. tauto. }
    replace (A * A ^ length l * (exp ((g * x - (A - 1)) / A) * exp ((g * sum l - INR (length l) * (A - 1)) / A)))
      with (A * exp ((g * x - (A - 1)) / A) * (A ^ length l * exp ((g * sum l - INR (length l) * (A - 1)) / A)))
      by ring.
    apply Rmult_le_compat; try assumption. nra. }
  eapply Rle_trans; [apply (K xs Hx)|]. fold r.
  assert (Z : (g * sum xs - INR r * (A - 1)) / A <= 0).
  { replace (INR r * (A - 1)) with (g * s) by (unfold A; field; lra).
    apply (Rmult_le_reg_r A); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra. }
  assert (exp ((g * sum xs - INR r * (A - 1)) / A) <= 1).
  { apply Rle_trans with (exp 0); [|rewrite exp_0; lra].
    destruct Z as [Z|Z]; [left; now apply exp_increasing | rewrite Z; lra]. }
  assert (0 < A ^ r) by (apply pow_lt; lra). nra.
Qed.

(** The zeros do best when the limit is heaped on as few as possible: k of them whole, and f of one more. *)
Lemma heaped_is_worst c k f ys :
  0 <= c <= 1 -> 0 <= f <= 1 -> (forall y, In y ys -> 0 <= y <= 1) -> sum ys <= INR k + f ->
  (1 - c) ^ k * (1 - c * f) <= product (map (fun y => 1 - c * y) ys).
Proof.
  intros Hc. revert k f. induction ys as [|y ys IH]; intros k f Hf Hy Hs; simpl.
  - assert (0 <= (1 - c) ^ k <= 1).
    { split; [apply pow_le; lra|]. apply Rle_trans with (1 ^ k); [apply pow_incr; lra | rewrite pow1; lra]. }
    assert (0 <= 1 - c * f <= 1) by nra. nra.
  - pose proof (Hy y (or_introl eq_refl)) as Y. specialize (fun k f Hf => IH k f Hf (fun z Hz => Hy z (or_intror Hz))).
    assert (P : 0 <= (1 - c) ^ k) by (apply pow_le; lra).
    simpl in Hs. destruct (Rle_dec y f) as [L|L].
    + specialize (IH k (f - y) ltac:(lra) ltac:(lra)).
      assert (1 - c * f <= (1 - c * y) * (1 - c * (f - y))).
      { assert (0 <= c * c * (y * (f - y))) by (apply Rmult_le_pos; [nra | apply Rmult_le_pos; lra]). nra. }
      apply Rle_trans with ((1 - c * y) * ((1 - c) ^ k * (1 - c * (f - y)))).
      * replace ((1 - c * y) * ((1 - c) ^ k * (1 - c * (f - y))))
          with ((1 - c) ^ k * ((1 - c * y) * (1 - c * (f - y)))) by ring.
        now apply Rmult_le_compat_l.
      * apply Rmult_le_compat_l; [nra | assumption].
    + destruct k as [|k].
      * exfalso. assert (0 <= sum ys).
        { clear - Hy. induction ys as [|z ys IH]; simpl; [lra|].
          assert (0 <= z <= 1) by (apply Hy; simpl; auto).
          assert (0 <= sum ys) by (apply IH; intros w Hw; apply Hy; simpl in *; tauto). lra. }
        simpl in Hs. lra.
      * rewrite S_INR in Hs. specialize (IH k (1 + f - y) ltac:(lra) ltac:(lra)).
        assert (P' : 0 <= (1 - c) ^ k) by (apply pow_le; lra).
        assert ((1 - c) * (1 - c * f) <= (1 - c * y) * (1 - c * (1 + f - y))).
        { assert (0 <= c * c * ((y - f) * (1 - y))) by (apply Rmult_le_pos; [nra | apply Rmult_le_pos; lra]). nra. }
        apply Rle_trans with ((1 - c * y) * ((1 - c) ^ k * (1 - c * (1 + f - y)))).
        -- replace ((1 - c * y) * ((1 - c) ^ k * (1 - c * (1 + f - y))))
             with ((1 - c) ^ k * ((1 - c * y) * (1 - c * (1 + f - y)))) by ring.
           replace ((1 - c) ^ S k * (1 - c * f)) with ((1 - c) ^ k * ((1 - c) * (1 - c * f))) by (simpl; ring).
           now apply Rmult_le_compat_l.
        -- apply Rmult_le_compat_l; [nra | assumption].
Qed.

(** What the figure must be at least, for r ones among t counters with a limit of B ranges. *)
Definition enough (l B : R) (t r : nat) (F : R) : Prop :=
  exists k f, 0 <= f <= 1 /\ Rmin B (INR (t - r)) <= INR k + f /\
    (1 + (1 - 2 * l) / l * Rmin B (INR r) / INR r) ^ r
    <= exp F * ((1 - (1 - 2 * l) / (1 - l)) ^ k * (1 - (1 - 2 * l) / (1 - l) * f)).

Lemma parts_length b part cs os :
  length cs = length os -> (length (parts b part cs os) + length (parts (negb b) part cs os) = length cs)%nat.
Proof.
  revert os. induction cs as [|c cs IH]; intros [|o os] H; simpl in *; try lia.
  specialize (IH os ltac:(lia)). destruct b, o; simpl in *; lia.
Qed.

Lemma parts_length_any b p p' cs os : length (parts b p cs os) = length (parts b p' cs os).
Proof.
  revert os. induction cs as [|c cs IH]; intros [|o os]; simpl; try reflexivity.
  destruct (eqb b o); simpl; [f_equal|]; apply IH.
Qed.

Lemma parts_sum b part cs os :
  (forall c, In c cs -> 0 <= part c <= 1) -> length cs = length os ->
  0 <= sum (parts b part cs os) <= sum (map part cs) /\ sum (parts b part cs os) <= INR (length (parts b part cs os)).
Proof.
  intros H. revert os. induction cs as [|c cs IH]; intros [|o os] L; simpl in *; try lia; try lra.
  pose proof (H c (or_introl eq_refl)). specialize (IH (fun d Hd => H d (or_intror Hd)) os ltac:(lia)).
  destruct (eqb b o); [|lra].
  change (length (part c :: parts b part cs os)) with (S (length (parts b part cs os))). rewrite S_INR. simpl. lra.
Qed.

Lemma parts_in b part cs os x : In x (parts b part cs os) -> exists c, In c cs /\ x = part c.
Proof.
  revert os. induction cs as [|c cs IH]; intros [|o os] H; simpl in *; try contradiction.
  destruct (eqb b o); simpl in H.
  - destruct H as [<-|H]; [exists c; auto|]. destruct (IH os H) as [d [D1 D2]]. exists d; auto.
  - destruct (IH os H) as [d [D1 D2]]. exists d; auto.
Qed.

Theorem joint_limit l B F cs os :
  0 < l <= 1 / 2 -> 0 <= B -> (forall c, In c cs -> compared_within l c) ->
  sum (map part_x cs) <= B -> sum (map part_y cs) <= B ->
  (forall r, (r <= length cs)%nat -> enough l B (length cs) r F) ->
  length cs = length os ->
  chance (map chance_x cs) os <= exp F * chance (map chance_y cs) os.
Proof.
  intros Hl HB H Hx Hy HF Len.
  pose proof (ones_and_zeros l cs os Hl H) as OZ. cbv zeta in OZ.
  set (g := (1 - 2 * l) / l) in *. set (c := (1 - 2 * l) / (1 - l)) in *.
  assert (g0 : 0 <= g) by (unfold g; apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
  assert (c1 : 0 <= c < 1).
  { unfold c. split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]|].
    apply (Rmult_lt_reg_r (1 - l)); [lra|]. field_simplify; lra. }
  set (X := parts true part_x cs os) in *. set (Y := parts false part_y cs os) in *.
  assert (HXp : forall d, In d cs -> 0 <= part_x d <= 1) by (intros d Hd; apply (H d Hd)).
  assert (HYp : forall d, In d cs -> 0 <= part_y d <= 1) by (intros d Hd; apply (H d Hd)).
  destruct (parts_sum true part_x cs os HXp Len) as [X1 X2]. fold X in X1, X2.
  destruct (parts_sum false part_y cs os HYp Len) as [Y1 Y2]. fold Y in Y1, Y2.
  pose proof (parts_length true part_x cs os Len) as PL. simpl negb in PL.
  rewrite (parts_length_any false part_x part_y) in PL. fold X Y in PL.
  set (r := length X) in *.
  destruct (HF r ltac:(lia)) as [k [f [Hf [Hk HE]]]]. fold g c in HE.
  assert (ones : product (map (fun x => 1 + g * x) X) <= (1 + g * Rmin B (INR r) / INR r) ^ r).
  { apply even_is_best; auto.
    - unfold Rmin. destruct (Rle_dec _ _); [assumption | apply pos_INR].
    - intros x Ix. apply parts_in in Ix as [d [D1 ->]]. now apply HXp.
    - unfold Rmin. destruct (Rle_dec _ _); lra. }
  assert (zeros : (1 - c) ^ k * (1 - c * f) <= product (map (fun y => 1 - c * y) Y)).
  { apply heaped_is_worst; auto; [lra| |].
    - intros y Iy. apply parts_in in Iy as [d [D1 ->]]. now apply HYp.
    - apply Rle_trans with (Rmin B (INR (length cs - r))); [|assumption].
      replace (length cs - r)%nat with (length Y) by lia.
      unfold Rmin. destruct (Rle_dec _ _); lra. }
  assert (D0 : 0 < (1 - c) ^ k * (1 - c * f)).
  { apply Rmult_lt_0_compat; [apply pow_lt; lra | nra]. }
  assert (Nx : 0 <= chance (map chance_x cs) os) by (apply chance_nonneg; intros d Hd; now apply (compared_chances l d Hl), H).
  assert (Ny : 0 <= chance (map chance_y cs) os) by (apply chance_nonneg; intros d Hd; now apply (compared_chances l d Hl), H).
  set (Q := (1 - c) ^ k * (1 - c * f)) in *. set (Z := product (map (fun y => 1 - c * y) Y)) in *.
  apply (Rmult_le_reg_r Q); [assumption|].
  apply Rle_trans with (chance (map chance_x cs) os * Z); [now apply Rmult_le_compat_l|].
  eapply Rle_trans; [exact OZ|].
  apply Rle_trans with (chance (map chance_y cs) os * (exp F * Q)).
  - apply Rmult_le_compat_l; [assumption|]. lra.
  - right. ring.
Qed.

(** ** Unlike counters: the Lagrangian bound *)

(** A counter of its own range [top] and coin [l], of which the limit leaves a part [cap], and the most that it can
    gain above the prices, [gain]. *)
Record unlike := { side : compared; l_of : R; top_of : R; cap : R; gain : R }.

Definition cost (lambda mu : R) (u : unlike) (o : bool) : R :=
  gain u + if o then lambda * (top_of u * part_x (side u)) else mu * (top_of u * part_y (side u)).

Definition priced (lambda mu : R) (u : unlike) : Prop :=
  0 < l_of u <= 1 / 2 /\ compared_within (l_of u) (side u) /\ part_x (side u) <= cap u /\ part_y (side u) <= cap u /\
  (forall x, 0 <= x <= cap u -> 1 + (1 - 2 * l_of u) / l_of u * x <= exp (gain u + lambda * (top_of u * x))) /\
  (forall y, 0 <= y <= cap u -> 1 <= exp (gain u + mu * (top_of u * y)) * (1 - (1 - 2 * l_of u) / (1 - l_of u) * y)).

Lemma chance_by_cost lambda mu us os :
  (forall u, In u us -> priced lambda mu u) ->
  length us = length os ->
  chance (map (fun u => chance_x (side u)) us) os
  <= exp (sum (map (fun p => cost lambda mu (fst p) (snd p)) (combine us os)))
     * chance (map (fun u => chance_y (side u)) us) os.
Proof.
  revert os. induction us as [|u us IH]; intros [|o os] H L; simpl in *; try discriminate; [rewrite exp_0; lra|].
  destruct (H u (or_introl eq_refl)) as [Hl [HC [Cx [Cy [H1 H0]]]]].
  specialize (IH os (fun v Hv => H v (or_intror Hv)) ltac:(lia)).
  destruct (compared_chances _ _ Hl HC) as [K1 [K2 _]]. destruct HC as [Hp [Hq [Hx Hy]]].
  set (l := l_of u) in *. rewrite exp_plus.
  set (A := chance (map (fun u => chance_x (side u)) us) os) in *.
  set (B := chance (map (fun u => chance_y (side u)) us) os) in *.
  set (X := exp (sum (map (fun p => cost lambda mu (fst p) (snd p)) (combine us os)))) in *.
  assert (A0 : 0 <= A).
  { apply chance_nonneg. intros v Iv. destruct (H v (or_intror Iv)) as [Hv [HCv _]]. now apply (compared_chances (l_of v)). }
  pose proof (exp_pos (cost lambda mu u o)) as E0.
  assert (step : (if o then chance_x (side u) else 1 - chance_x (side u))
                 <= exp (cost lambda mu u o) * (if o then chance_y (side u) else 1 - chance_y (side u))).
  { unfold cost. destruct o.
    - specialize (H1 _ (conj (proj1 Hx) Cx)). fold l in H1.
      assert (E : l * (1 + (1 - 2 * l) / l * part_x (side u)) = l + (1 - 2 * l) * part_x (side u)) by (field; lra).
      set (e := exp (gain u + lambda * (top_of u * part_x (side u)))) in *.
      apply Rle_trans with (l * e); [|assert (0 < e) by apply exp_pos; nra].
      apply Rle_trans with (l * (1 + (1 - 2 * l) / l * part_x (side u))); [lra|].
      apply Rmult_le_compat_l; lra.
    - specialize (H0 _ (conj (proj1 Hy) Cy)). fold l in H0.
      assert (E : (1 - l) * (1 - (1 - 2 * l) / (1 - l) * part_y (side u)) = 1 - (l + (1 - 2 * l) * part_y (side u)))
        by (field; lra).
      set (e := exp (gain u + mu * (top_of u * part_y (side u)))) in *.
      assert ((1 - l) * 1 <= (1 - l) * (e * (1 - (1 - 2 * l) / (1 - l) * part_y (side u))))
        by (apply Rmult_le_compat_l; lra).
      assert (0 < e) by apply exp_pos.
      apply Rle_trans with (e * (1 - (l + (1 - 2 * l) * part_y (side u)))); [|apply Rmult_le_compat_l; lra].
      rewrite <- E. lra. }
  replace (exp (cost lambda mu u o) * X * ((if o then chance_y (side u) else 1 - chance_y (side u)) * B))
    with (exp (cost lambda mu u o) * (if o then chance_y (side u) else 1 - chance_y (side u)) * (X * B)) by ring.
  apply Rle_trans with (exp (cost lambda mu u o) * (if o then chance_y (side u) else 1 - chance_y (side u)) * A).
  - now apply Rmult_le_compat_r.
  - apply Rmult_le_compat_l; [|assumption]. apply Rmult_le_pos; [lra | destruct o; lra].
Qed.

(** Claim: (lambda + mu) M and the gains, for any prices that are not negative. *)
Theorem joint_limit_by_prices lambda mu M us os :
  0 <= lambda -> 0 <= mu ->
  (forall u, In u us -> priced lambda mu u) ->
  (forall u, In u us -> 0 <= top_of u) ->
  sum (map (fun u => top_of u * part_x (side u)) us) <= M -> sum (map (fun u => top_of u * part_y (side u)) us) <= M ->
  length us = length os ->
  chance (map (fun u => chance_x (side u)) us) os
  <= exp ((lambda + mu) * M + sum (map gain us)) * chance (map (fun u => chance_y (side u)) us) os.
Proof.
  intros HL HM H HT Sx Sy Len. eapply Rle_trans; [apply (chance_by_cost lambda mu us os H Len)|].
  apply Rmult_le_compat_r.
  - apply chance_nonneg. intros v Iv. destruct (H v Iv) as [Hv [HCv _]]. now apply (compared_chances (l_of v)).
  - assert (S : sum (map (fun p => cost lambda mu (fst p) (snd p)) (combine us os))
                <= sum (map gain us) + lambda * sum (map (fun u => top_of u * part_x (side u)) us)
                   + mu * sum (map (fun u => top_of u * part_y (side u)) us)).
    { clear Sx Sy. revert os Len. induction us as [|v us IH]; intros [|o os] Len; simpl in *; try lra; try discriminate.
      specialize (IH (fun w Hw => H w (or_intror Hw)) (fun w Hw => HT w (or_intror Hw)) os ltac:(lia)).
      pose proof (HT v (or_introl eq_refl)). destruct (H v (or_introl eq_refl)) as [_ [[_ [_ [Px Py]]] _]].
      assert (0 <= top_of v * part_x (side v)) by (apply Rmult_le_pos; lra).
      assert (0 <= top_of v * part_y (side v)) by (apply Rmult_le_pos; lra).
      unfold cost at 1. simpl. destruct o; nra. }
    assert (C : sum (map (fun p => cost lambda mu (fst p) (snd p)) (combine us os)) <= (lambda + mu) * M + sum (map gain us)) by nra.
    now apply exp_le.
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
  assert (t * (e * (1 + (1 - t) * a)) <= t * (e * exp ((1 - t) * a))).
  { apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; lra. }
  assert ((1 - t) * (e * (1 + - (t * a))) <= (1 - t) * 1).
  { apply Rmult_le_compat_l; [lra|]. apply Rle_trans with (e * exp (- (t * a))); [apply Rmult_le_compat_l; lra | lra]. }
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

Record pair_of_programs A := {
  sides : compared;
  if_one : program A;
  if_zero : program A;
  program_x : program A;
  program_y : program A
}.
Arguments sides {A}. Arguments if_one {A}. Arguments if_zero {A}. Arguments program_x {A}. Arguments program_y {A}.

Lemma loss_of_mixtures_scaled {A} (qs : list (pair_of_programs A)) :
  (forall q, In q qs -> mixture (chance_x (sides q)) (if_one q) (if_zero q) (program_x q) /\
                        mixture (chance_y (sides q)) (if_one q) (if_zero q) (program_y q)) ->
  forall a b f, (forall l, 0 <= f l) ->
  (forall os, length os = length qs ->
     a * chance (map (fun q => chance_x (sides q)) qs) os <= b * chance (map (fun q => chance_y (sides q)) qs) os) ->
  a * E (each (map program_x qs)) f <= b * E (each (map program_y qs)) f.
Proof.
  induction qs as [|q qs IH]; intros H a b f F HC.
  - specialize (HC [] eq_refl). simpl in *. specialize (F []). nra.
  - destruct (H q (or_introl eq_refl)) as [HX HY].
    simpl map. rewrite !E_each_cons, HX, HY.
    set (p := chance_x (sides q)) in *. set (p' := chance_y (sides q)) in *.
    set (g := fun x => E (each (map program_x qs)) (fun l => f (x :: l))).
    set (g' := fun x => E (each (map program_y qs)) (fun l => f (x :: l))).
    specialize (IH (fun d Hd => H d (or_intror Hd))).
    assert (one : forall x, a * p * g x <= b * p' * g' x).
    { intros x. apply IH; [intros; apply F|]. intros os L. specialize (HC (true :: os)). simpl in HC.
      fold p p' in HC. rewrite !Rmult_assoc. apply HC. lia. }
    assert (zero : forall x, a * (1 - p) * g x <= b * (1 - p') * g' x).
    { intros x. apply IH; [intros; apply F|]. intros os L. specialize (HC (false :: os)). simpl in HC.
      fold p p' in HC. rewrite !Rmult_assoc. apply HC. lia. }
    rewrite !Rmult_plus_distr_l, <- !Rmult_assoc, <- !E_scal.
    apply Rplus_le_compat; apply E_le; assumption.
Qed.

Theorem loss_of_mixtures {A} F (qs : list (pair_of_programs A)) :
  (forall q, In q qs -> mixture (chance_x (sides q)) (if_one q) (if_zero q) (program_x q) /\
                        mixture (chance_y (sides q)) (if_one q) (if_zero q) (program_y q)) ->
  (forall os, length (map sides qs) = length os ->
     chance (map chance_x (map sides qs)) os <= exp F * chance (map chance_y (map sides qs)) os) ->
  loss F (each (map program_x qs)) (each (map program_y qs)).
Proof.
  intros H HC f F0. rewrite <- (Rmult_1_l (E (each (map program_x qs)) f)).
  apply loss_of_mixtures_scaled; auto. intros os L.
  specialize (HC os). rewrite !map_map, map_length in HC. rewrite Rmult_1_l. apply HC. lia.
Qed.

(** ** Means on a device *)

(** The answers of a mean whose value stays: its remembered bit over alphas, then the flips. *)
Lemma mean_is_a_mixture points lo G x n :
  valid_points points -> valid_low lo -> valid_flip G ->
  mixture (chance_of_one points (map (cell_threshold lo (last points 0%Z)) points) x)
          (l <- sent G (repeat true n) ;; Ret [l]) (l <- sent G (repeat false n) ;; Ret [l])
          (answers (mean_metric points lo G) (repeat x n)).
Proof.
  intros HP HL HG f. pose proof (mean_metric_is_valid points lo G HP HL HG) as V.
  destruct (valid_points_range points HP) as [_ [NE _]].
  set (table := map (cell_threshold lo (last points 0%Z)) points).
  unfold answers. rewrite E_bind. simpl.
  set (a := E (l <- sent G (repeat true n);; Ret [l]) f).
  set (b := E (l <- sent G (repeat false n);; Ret [l]) f).
  rewrite (mean_ext _ (fun alpha => b + (a - b) * share (nth (cell points alpha x) table 0%Z))).
  - rewrite mean_plus, mean_const, mean_scal. unfold chance_of_one. fold table. ring.
  - intros alpha _. unfold answers_of_classes. simpl map.
    replace (map (cell points alpha) (repeat x n)) with (repeat (cell points alpha x) n)
      by (clear; induction n as [|n IH]; simpl; [reflexivity | now rewrite IH]).
    rewrite E_each_cons. simpl each. fold table.
    assert (B : (cell points alpha x < length table)%nat) by (unfold table; rewrite map_length; now apply cell_bound).
    rewrite (E_column_constant table G (cell points alpha x) n) by assumption.
    unfold constant_bit. rewrite E_bind, E_coin.
    + unfold a, b. rewrite !E_bind. simpl. ring.
    + apply (in_scale lo); [assumption|]. apply (valid_nth (mean_metric points lo G)); auto; simpl; auto.
      now apply cell_bound.
Qed.

(** In one round the flip is part of the chance: l' = l (1-g) + (1-l) g and so on. *)
Lemma mean_in_one_round points lo G x :
  valid_points points -> valid_low lo -> valid_flip G ->
  let p := chance_of_one points (map (cell_threshold lo (last points 0%Z)) points) x in
  mixture (p * (1 - 2 * share G) + share G) (Ret [[true]]) (Ret [[false]]) (answers (mean_metric points lo G) [x]).
Proof.
  intros HP HL HG p f. pose proof (mean_is_a_mixture points lo G x 1 HP HL HG f) as M.
  fold p in M. simpl repeat in M. rewrite M. rewrite !E_bind. unfold sent. simpl map.
  rewrite !E_each_cons, !E_seen by assumption. simpl. unfold weight. simpl. ring.
Qed.

(** ** From chances to the claims of a group *)

(** The chance of a remembered 1 is on Eq. 1 or below it: alphas and inner thresholds are rounded down. *)
Definition bounded (l : R) (c : counter) (p : Z -> R) : Prop :=
  forall x, (0 <= x <= top c)%Z -> l <= p x <= l + (1 - 2 * l) * (IZR x / IZR (top c)).

(** Whatever the chances, if bounded: F for every pair of vectors within the limit. *)
Definition joint_bound (l : counter -> R) (limit : Z) (cs : list counter) (F : R) : Prop :=
  forall p, (forall c, In c cs -> bounded (l c) c (p c)) ->
  forall xs ys, within_limit limit cs xs -> within_limit limit cs ys -> forall os, length os = length cs ->
  chance (map (fun cx => p (fst cx) (snd cx)) (combine cs xs)) os
  <= exp F * chance (map (fun cy => p (fst cy) (snd cy)) (combine cs ys)) os.

Definition valid_counter (c : counter) : Prop :=
  valid_points (points c) /\ valid_low (counter_low c) /\ valid_flip (counter_flip c).

Definition low_kept (c : counter) : R := share (counter_low c).
Definition low_seen (c : counter) : R := share (counter_low c) * (1 - 2 * share (counter_flip c)) + share (counter_flip c).

Lemma lows_bounds c : valid_counter c -> 0 < low_kept c <= 1 / 2 /\ 0 < low_seen c <= 1 / 2.
Proof.
  intros [_ [HL HG]]. pose proof (share_low _ HL). pose proof (share_flip _ HG). unfold low_kept, low_seen. nra.
Qed.

Definition remembered_one (c : counter) (x : Z) : R :=
  chance_of_one (points c) (map (cell_threshold (counter_low c) (top c)) (points c)) x.

Lemma chance_line c : valid_counter c -> bounded (low_kept c) c (remembered_one c).
Proof.
  intros [HP [HL HG]] x Hx. destruct (valid_points_range _ HP) as [T0 [NE [H0 Rng]]]. unfold low_kept. split.
  - unfold remembered_one, chance_of_one. rewrite <- (mean_const (share (counter_low c))). apply mean_le. intros alpha _.
    apply (share_bounds (counter_low c)); [assumption|].
    apply (valid_nth (mean_of c)); [now apply mean_metric_is_valid | simpl; auto | simpl; now apply cell_bound].
  - pose proof (one_bit_mean_over_alphas _ (top c) _ x HL T0 NE (proj1 (proj2 HP)) Rng) as O.
    rewrite H0 in O. specialize (O Hx). cbv zeta in O. unfold remembered_one. rewrite Rmult_comm. lra.
Qed.

(** Two cases of the same counters, side by side. *)
Lemma side_by_side {A B} (cs : list A) (xs ys : list Z) (f : A -> Z -> B) :
  length xs = length cs -> length ys = length cs ->
  map (fun t => f (fst t) (fst (snd t))) (combine cs (combine xs ys)) = map (fun cx => f (fst cx) (snd cx)) (combine cs xs) /\
  map (fun t => f (fst t) (snd (snd t))) (combine cs (combine xs ys)) = map (fun cy => f (fst cy) (snd cy)) (combine cs ys).
Proof.
  revert xs ys. induction cs as [|c cs IH]; intros [|x xs] [|y ys] Lx Ly; simpl in *; try discriminate; [auto|].
  destruct (IH xs ys ltac:(lia) ltac:(lia)) as [-> ->]. auto.
Qed.

Lemma in_limit {A} (member : A -> counter) limit (cs : list A) xs ys t :
  within_limit limit (map member cs) xs -> within_limit limit (map member cs) ys -> In t (combine cs (combine xs ys)) ->
  In (fst t) cs /\ (0 <= fst (snd t) <= top (member (fst t)))%Z /\ (0 <= snd (snd t) <= top (member (fst t)))%Z.
Proof.
  intros [Wx _] [Wy _]. revert xs ys Wx Wy. induction cs as [|c cs IH]; intros xs ys Wx Wy; [contradiction|].
  inversion_clear Wx as [|? x ? xs' Hx Wx']. inversion_clear Wy as [|? y ? ys' Hy Wy']. simpl.
  intros [<-|I]; [auto|]. destruct (IH _ _ Wx' Wy' I) as [J1 J2]. auto.
Qed.

Lemma within_length limit cs xs : within_limit limit cs xs -> length xs = length cs.
Proof. intros [W _]. induction W; simpl; congruence. Qed.

(** A history for each counter that holds one value, given how often: its chances of a 1, and what is sent then. *)
Lemma joint_of_members (l : counter -> R) (p : counter -> Z -> R) (one zero : counter -> program (list (list bool)))
    n limit cs F xs ys :
  (forall c, In c cs -> bounded (l c) c (p c)) ->
  (forall c x, In c cs -> mixture (p c x) (one c) (zero c) (answers (mean_of c) (repeat x n))) ->
  joint_bound l limit cs F -> within_limit limit cs xs -> within_limit limit cs ys ->
  loss F (answers_of_group cs (map (fun x => repeat x n) xs)) (answers_of_group cs (map (fun y => repeat y n) ys)).
Proof.
  intros HB HM HJ Wx Wy.
  pose proof (within_length _ _ _ Wx) as Lx. pose proof (within_length _ _ _ Wy) as Ly.
  set (q := fun t : counter * (Z * Z) => {|
    sides := {| chance_x := p (fst t) (fst (snd t)); chance_y := p (fst t) (snd (snd t)); part_x := 0; part_y := 0 |};
    if_one := one (fst t); if_zero := zero (fst t);
    program_x := answers (mean_of (fst t)) (repeat (fst (snd t)) n);
    program_y := answers (mean_of (fst t)) (repeat (snd (snd t)) n) |}).
  assert (held : forall zs, answers_of_group cs (map (fun z => repeat z n) zs)
                 = each (map (fun cz => answers (mean_of (fst cz)) (repeat (snd cz) n)) (combine cs zs))).
  { intros zs. unfold answers_of_group. f_equal. clear. revert zs. induction cs as [|c cs IH]; intros [|z zs]; simpl; auto.
    now rewrite IH. }
  rewrite !held.
  destruct (side_by_side cs xs ys (fun c z => answers (mean_of c) (repeat z n)) ltac:(lia) ltac:(lia)) as [EX EY].
  destruct (side_by_side cs xs ys p ltac:(lia) ltac:(lia)) as [PX PY].
  rewrite <- EX, <- EY.
  replace (map _ (combine cs (combine xs ys))) with (map program_x (map q (combine cs (combine xs ys))))
    by (rewrite map_map; reflexivity).
  replace (map (fun t => answers (mean_of (fst t)) (repeat (snd (snd t)) n)) (combine cs (combine xs ys)))
    with (map program_y (map q (combine cs (combine xs ys)))) by (rewrite map_map; reflexivity).
  apply loss_of_mixtures.
  - intros d Id. apply in_map_iff in Id as [t [<- I]].
    assert (In (fst t) cs) by (destruct t; now apply in_combine_l in I). split; now apply HM.
  - intros os Los. rewrite !map_map. simpl. rewrite PX, PY. apply HJ; auto.
    rewrite !map_length, !combine_length in Los. lia.
Qed.

(** Claim (joint_limit_loss, rounds="one" and rounds="all"). *)
Lemma round_of_group limit cs F xs ys :
  (forall c, In c cs -> valid_counter c) -> joint_bound low_seen limit cs F ->
  within_limit limit cs xs -> within_limit limit cs ys ->
  loss F (answers_of_group cs (map (fun x => [x]) xs)) (answers_of_group cs (map (fun y => [y]) ys)).
Proof.
  intros HV H1 Wx Wy.
    apply (joint_of_members low_seen
             (fun c x => remembered_one c x * (1 - 2 * share (counter_flip c)) + share (counter_flip c))
             (fun _ => Ret [[true]]) (fun _ => Ret [[false]]) 1 limit); auto.
    + intros c Ic x Hx. pose proof (chance_line c (HV c Ic) x Hx) as C. destruct (HV c Ic) as [_ [HL HG]].
      pose proof (share_flip _ HG) as g2. unfold low_seen. unfold low_kept in C. split; [nra|].
      apply Rle_trans with ((share (counter_low c) + (1 - 2 * share (counter_low c)) * (IZR x / IZR (top c)))
                            * (1 - 2 * share (counter_flip c)) + share (counter_flip c)); [nra | right; ring].
    + intros c x Ic. destruct (HV c Ic) as [HP [HL HG]]. now apply mean_in_one_round.
Qed.

Theorem joint_limit_of_group limit cs (one all : Q) :
  (forall c, In c cs -> valid_counter c) ->
  joint_bound low_seen limit cs (Q2R one) -> joint_bound low_kept limit cs (Q2R all) -> group_claims cs limit one all.
Proof.
  intros HV H1 HA. split; [intros; now apply round_of_group with limit|].
  intros n xs ys Wx Wy.
    apply (joint_of_members low_kept remembered_one
             (fun c => l <- sent (counter_flip c) (repeat true n) ;; Ret [l])
             (fun c => l <- sent (counter_flip c) (repeat false n) ;; Ret [l]) n limit); auto.
    + intros c Ic. apply chance_line. auto.
    + intros c x Ic. destruct (HV c Ic) as [HP [HL HG]]. now apply mean_is_a_mixture.
Qed.

Lemma fraction_bounds c x : valid_counter c -> (0 <= x <= top c)%Z -> 0 <= IZR x / IZR (top c) <= 1.
Proof.
  intros [HP _] Hx. destruct (valid_points_range _ HP) as [T0 _]. apply IZR_lt in T0.
  change (0 < IZR (top c)) in T0. destruct Hx as [X0 X1]. apply IZR_le in X0, X1. split.
  - apply Rmult_le_pos; [assumption | left; now apply Rinv_0_lt_compat].
  - apply (Rmult_le_reg_r (IZR (top c))); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_l, Rmult_1_r by lra.
    assumption.
Qed.

(** Counters alike. *)
Theorem joint_bound_of_alike l limit c t F :
  valid_counter c -> 0 < l c <= 1 / 2 -> (0 <= limit)%Z ->
  (forall r, (r <= t)%nat -> enough (l c) (IZR limit / IZR (top c)) t r F) -> joint_bound l limit (repeat c t) F.
Proof.
  intros HV Hl Hlim HE p HB xs ys Wx Wy os Los. rewrite repeat_length in Los.
  pose proof (within_length _ _ _ Wx) as Lx. pose proof (within_length _ _ _ Wy) as Ly. rewrite repeat_length in Lx, Ly.
  destruct (valid_points_range _ (proj1 HV)) as [T0 _]. apply IZR_lt in T0. change (0 < IZR (top c)) in T0.
  destruct (side_by_side (repeat c t) xs ys p ltac:(rewrite repeat_length; lia) ltac:(rewrite repeat_length; lia)) as [PX PY].
  destruct (side_by_side (repeat c t) xs ys (fun _ z => IZR z / IZR (top c))
    ltac:(rewrite repeat_length; lia) ltac:(rewrite repeat_length; lia)) as [QX QY].
  rewrite <- PX, <- PY.
  set (sd := fun k : counter * (Z * Z) => {|
    chance_x := p (fst k) (fst (snd k)); chance_y := p (fst k) (snd (snd k));
    part_x := IZR (fst (snd k)) / IZR (top c); part_y := IZR (snd (snd k)) / IZR (top c) |}).
  set (ks := combine (repeat c t) (combine xs ys)) in *.
  assert (total_of : forall zs, length zs = t ->
            sum (map (fun cz => IZR (snd cz) / IZR (top c)) (combine (repeat c t) zs)) = IZR (fold_right Z.add 0%Z zs) / IZR (top c)).
  { clear - T0. induction t as [|t IH]; intros [|z zs] L; simpl in *; try discriminate; [field; lra|].
    rewrite IH by lia. rewrite plus_IZR. field. lra. }
  assert (fits : forall zs, within_limit limit (repeat c t) zs ->
            sum (map (fun cz => IZR (snd cz) / IZR (top c)) (combine (repeat c t) zs)) <= IZR limit / IZR (top c)).
  { intros zs W. rewrite total_of by (rewrite (within_length _ _ _ W); apply repeat_length). destruct W as [_ S].
    apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | now apply IZR_le]. }
  pose proof (joint_limit (l c) (IZR limit / IZR (top c)) F (map sd ks) os) as J. rewrite !map_map in J. simpl in J.
  assert (Lk : length ks = t) by (unfold ks; rewrite !combine_length, repeat_length; lia).
  rewrite map_length, Lk in J. apply J; auto.
  - apply Rmult_le_pos; [now apply IZR_le | left; now apply Rinv_0_lt_compat].
  - intros d Id. apply in_map_iff in Id as [k [<- I]].
    assert (Wx' : within_limit limit (map (fun c => c) (repeat c t)) xs) by now rewrite map_id.
    assert (Wy' : within_limit limit (map (fun c => c) (repeat c t)) ys) by now rewrite map_id.
    destruct (in_limit (fun c => c) _ _ _ _ _ Wx' Wy' I) as [I1 [I2 I3]].
    specialize (HB _ I1). apply repeat_spec in I1. unfold sd, compared_within. simpl. rewrite I1 in *.
    repeat split; try (now apply HB); now apply fraction_bounds.
  - rewrite QX. now apply fits.
  - rewrite QY. now apply fits.
Qed.

(** Unlike counters, each with the gain that it has at the prices. *)
Theorem joint_bound_of_unlike l limit (cs : list (counter * R)) lambda mu F :
  (forall c, In c cs -> valid_counter (fst c)) -> (0 < limit)%Z -> 0 <= lambda -> 0 <= mu ->
  (forall c g, In (c, g) cs -> 0 < l c <= 1 / 2 /\
     let m := Rmin 1 (IZR limit / IZR (top c)) in
     (forall x, 0 <= x <= m -> 1 + (1 - 2 * l c) / l c * x <= exp (g + lambda * (IZR (top c) * x))) /\
     (forall y, 0 <= y <= m -> 1 <= exp (g + mu * (IZR (top c) * y)) * (1 - (1 - 2 * l c) / (1 - l c) * y))) ->
  (lambda + mu) * IZR limit + sum (map snd cs) <= F -> joint_bound l limit (map fst cs) F.
Proof.
  intros HV Hlim HL HM HP HF p HB xs ys Wx Wy os Los. rewrite map_length in Los.
  pose proof (within_length _ _ _ Wx) as Lx. pose proof (within_length _ _ _ Wy) as Ly. rewrite map_length in Lx, Ly.
  set (u := fun k : (counter * R) * (Z * Z) => let c := fst (fst k) in {|
    side := {| chance_x := p c (fst (snd k)); chance_y := p c (snd (snd k));
               part_x := IZR (fst (snd k)) / IZR (top c); part_y := IZR (snd (snd k)) / IZR (top c) |};
    l_of := l c; top_of := IZR (top c); cap := Rmin 1 (IZR limit / IZR (top c)); gain := snd (fst k) |}).
  set (ks := combine cs (combine xs ys)).
  destruct (side_by_side cs xs ys (fun c => p (fst c)) ltac:(lia) ltac:(lia)) as [PX PY]. fold ks in PX, PY.
  assert (strip : forall zs, map (fun cz => p (fst cz) (snd cz)) (combine (map fst cs) zs)
                             = map (fun cz => p (fst (fst cz)) (snd cz)) (combine cs zs)).
  { clear. induction cs as [|c cs IH]; intros [|z zs]; simpl; auto. now rewrite IH. }
  rewrite !strip, <- PX, <- PY.
  assert (Lk : length ks = length cs) by (unfold ks; rewrite !combine_length; lia).
  assert (tops : forall c, In c cs -> 0 < IZR (top (fst c))).
  { intros c Ic. destruct (valid_points_range _ (proj1 (HV c Ic))) as [T0 _]. now apply IZR_lt. }
  assert (S : forall z : Z * Z -> Z, (forall k, In k ks -> In (fst k) cs) ->
              sum (map (fun k => IZR (top (fst (fst k))) * (IZR (z (snd k)) / IZR (top (fst (fst k))))) ks)
              = sum (map (fun k => IZR (z (snd k))) ks)).
  { intros z. clear - tops. induction ks as [|k ks IH]; intros H; simpl; [reflexivity|].
    rewrite IH by (intros; apply H; simpl; auto). specialize (tops _ (H k (or_introl eq_refl))). f_equal. field. lra. }
  assert (total_of : forall zs, length zs = length cs -> sum (map (fun cz => IZR (snd cz)) (combine cs zs)) = IZR (fold_right Z.add 0%Z zs)).
  { clear. induction cs as [|c cs IH]; intros [|z zs] L; simpl in *; try discriminate; [reflexivity|].
    rewrite IH, plus_IZR by lia. reflexivity. }
  destruct (side_by_side cs xs ys (fun _ z => IZR z) ltac:(lia) ltac:(lia)) as [ZX ZY]. fold ks in ZX, ZY.
  assert (In_ks : forall k, In k ks -> In (fst k) cs) by (intros [c xy] I; now apply in_combine_l in I).
  pose proof (joint_limit_by_prices lambda mu (IZR limit) (map u ks) os) as J. rewrite !map_map in J. simpl in J.
  eapply Rle_trans; [apply J; auto|].
  - intros v Iv. apply in_map_iff in Iv as [k [<- I]]. pose proof (In_ks k I) as Ic.
    destruct (in_limit fst _ _ _ _ _ Wx Wy I) as [_ [I2 I3]]. destruct k as [[c g] [x y]]. simpl in *.
    destruct (HP c g Ic) as [Hl [Ho Hz]]. pose proof (HV _ Ic) as Vc. simpl in Vc. specialize (tops _ Ic). simpl in tops.
    assert (most : forall zs z, within_limit limit (map fst cs) zs -> In z zs -> IZR z / IZR (top c) <= IZR limit / IZR (top c)).
    { intros zs z [W Sz] Iz. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|]. apply IZR_le.
      eapply Z.le_trans; [|exact Sz]. clear - W Iz. induction W as [|? z' ? zs Hz W IH]; [contradiction|]. simpl.
      assert (0 <= fold_right Z.add 0 zs)%Z by (clear - W; induction W; simpl; lia).
      destruct Iz as [->|Iz]; [lia|]. specialize (IH Iz). lia. }
    apply in_combine_r in I. pose proof (in_combine_l _ _ _ _ I). pose proof (in_combine_r _ _ _ _ I).
    unfold priced, compared_within. simpl.
    assert (In c (map fst cs)) by (apply in_map_iff; exists (c, g); auto).
    assert (near : forall z, (0 <= z <= top c)%Z -> 0 <= IZR z / IZR (top c) <= 1) by (intros; now apply fraction_bounds).
    specialize (HB c H1). split; [exact Hl|].
    split; [repeat split; try (now apply HB); now apply near|].
    split; [apply Rmin_glb; [now apply near | now apply (most xs)]|].
    split; [apply Rmin_glb; [now apply near | now apply (most ys)]|]. split; assumption.
  - intros v Iv. apply in_map_iff in Iv as [k [<- I]]. simpl. left. auto.
  - rewrite (S fst) by auto. rewrite ZX, total_of by lia. apply IZR_le, Wx.
  - rewrite (S snd) by auto. rewrite ZY, total_of by lia. apply IZR_le, Wy.
  - rewrite map_length. lia.
  - apply Rmult_le_compat_r.
    + apply chance_nonneg. intros k I. pose proof (In_ks k I) as Ic. destruct (HP (fst (fst k)) (snd (fst k))) as [Hl _].
      { now rewrite <- surjective_pairing. }
      destruct (in_limit fst _ _ _ _ _ Wx Wy I) as [_ [_ I3]]. pose proof (HB _ (in_map fst _ _ Ic) _ I3).
      pose proof (fraction_bounds _ _ (HV _ Ic) I3). nra.
    + apply exp_le. eapply Rle_trans; [|exact HF]. right. f_equal. unfold ks.
      clear - Lx Ly. revert xs ys Lx Ly. induction cs as [|c cs IH]; intros [|x xs] [|y ys] Lx Ly; simpl in *; try discriminate;
        [reflexivity|]. rewrite IH by lia. reflexivity.
Qed.
