(** * One answer bit: remembered with a threshold, sent through flips

    The remembered bit is [word < threshold], the sent bit is the remembered one xor [word < G], with a fresh word
    for the flip in each round (src/reticent/device/answers.py). Thresholds are from [low] to 2^64 - [low].       *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool.
From Reticent Require Import Definitions Draws.
Import ListNotations.
Open Scope R_scope.

Definition share (T : Z) : R := IZR T / IZR SCALE.

Definition coin (T : Z) : program bool := u <- draw ;; Ret (u <? T)%Z.
Definition answers_dec : forall a b : list bool, {a = b} + {a <> b} := list_eq_dec bool_dec.

Lemma share_bounds low T : valid_low low -> valid_threshold low T -> share low <= share T <= 1 - share low.
Proof.
  unfold valid_low, valid_threshold, share. intros [H1 H2] [H3 H4].
  pose proof IZR_SCALE_positive as HS.
  apply IZR_le in H3, H4. rewrite minus_IZR in H4.
  split; [apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | lra]|].
  replace (1 - IZR low / IZR SCALE) with ((IZR SCALE - IZR low) / IZR SCALE) by (field; lra).
  apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | lra].
Qed.

Lemma share_low low : valid_low low -> 0 < share low <= 1 / 2.
Proof.
  unfold valid_low, share. intros [H1 H2]. pose proof IZR_SCALE_positive as HS.
  apply IZR_lt in H1. apply IZR_le in H2. rewrite mult_IZR in H2.
  split; [now apply Rdiv_lt_0_compat|].
  apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
Qed.

Lemma share_flip G : valid_flip G -> 0 <= share G <= 1 / 2.
Proof.
  unfold valid_flip, share. intros [H1 H2]. pose proof IZR_SCALE_positive as HS.
  apply IZR_le in H1, H2. rewrite mult_IZR in H2.
  split.
  - apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
  - apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
Qed.

Lemma in_scale low T : valid_low low -> valid_threshold low T -> (0 <= T <= SCALE)%Z.
Proof. unfold valid_low, valid_threshold. lia. Qed.

(** ** The law of a bit *)

Lemma E_coin T f : (0 <= T <= SCALE)%Z -> E (coin T) f = share T * f true + (1 - share T) * f false.
Proof.
  intros H. unfold coin, share. simpl. rewrite <- mean_threshold by assumption.
  apply mean_ext. intros u _. now destruct (u <? T)%Z.
Qed.

(** How likely a remembered bit is sent as [o]. *)
Definition weight (g : R) (b o : bool) : R := if eqb b o then 1 - g else g.

Lemma E_seen G b f :
  valid_flip G -> E (seen G b) f = weight (share G) b true * f true + weight (share G) b false * f false.
Proof.
  intros [H1 H2]. unfold seen. simpl.
  rewrite (mean_ext _ (fun u => if (u <? G)%Z then f (negb b) else f b)).
  - rewrite mean_threshold by lia. unfold weight, share. destruct b; simpl; lra.
  - intros u _. destruct (u <? G)%Z, b; reflexivity.
Qed.

Fixpoint likelihood (g : R) (bs os : list bool) : R :=
  match bs, os with
  | [], [] => 1
  | b :: bs', o :: os' => weight g b o * likelihood g bs' os'
  | _, _ => 0
  end.

Lemma P_sent G bs os : valid_flip G -> P (sent G bs) (is answers_dec os) = likelihood (share G) bs os.
Proof.
  intros HG. revert os. induction bs as [|b bs IH]; intros os.
  - destruct os; reflexivity.
  - unfold P, sent. change (map (seen G) (b :: bs)) with (seen G b :: map (seen G) bs). rewrite E_each_cons.
    assert (step : forall x, E (each (map (seen G) bs)) (fun l => if is answers_dec os (x :: l) then 1 else 0)
                   = match os with
                     | o :: os' => if eqb x o then likelihood (share G) bs os' else 0
                     | [] => 0
                     end).
    { intros x. destruct os as [|o os'].
      - erewrite E_ext; [apply E_const|]. intros l. simpl. reflexivity.
      - destruct (eqb x o) eqn:Ex.
        + apply eqb_prop in Ex as ->. rewrite <- IH. apply E_ext. intros l. unfold is.
          destruct (answers_dec os' l) as [->|NE], (answers_dec (o :: _) (o :: l)) as [EQ|NE'];
            congruence || reflexivity.
        + erewrite E_ext; [apply E_const|]. intros l. unfold is.
          destruct (answers_dec (o :: os') (x :: l)) as [EQ|NE]; [|reflexivity].
          inversion EQ. subst. now rewrite eqb_reflx in Ex. }
    rewrite (E_ext _ _ _ step), E_seen by assumption.
    destruct os as [|o os']; simpl; [lra|]. destruct o; unfold weight; destruct b; simpl; lra.
Qed.

Lemma weight_bounds g b o : 0 <= g <= 1 / 2 -> g <= weight g b o <= 1 - g.
Proof. unfold weight. destruct (eqb b o); lra. Qed.

Lemma likelihood_nonneg g bs os : 0 <= g <= 1 / 2 -> 0 <= likelihood g bs os.
Proof.
  intros Hg. revert os. induction bs as [|b bs IH]; destruct os as [|o os]; simpl; try lra.
  apply Rmult_le_pos; [|apply IH]. pose proof (weight_bounds g b o Hg). lra.
Qed.

(** No sequence of answers is likelier than (1-g)^R. *)
Lemma likelihood_most g bs os : 0 <= g <= 1 / 2 -> likelihood g bs os <= (1 - g) ^ length bs.
Proof.
  intros Hg. revert os. induction bs as [|b bs IH]; destruct os as [|o os]; simpl; try lra.
  - apply Rmult_le_pos; [lra | apply pow_le; lra].
  - apply Rmult_le_compat; [pose proof (weight_bounds g b o Hg); lra | now apply likelihood_nonneg
      | apply weight_bounds; assumption | apply IH].
Qed.

(** ** One remembered bit, seen n times *)

Definition constant_bit (T G : Z) (n : nat) : program (list bool) := b <- coin T ;; sent G (repeat b n).

Lemma P_constant_bit T G n os :
  (0 <= T <= SCALE)%Z -> valid_flip G ->
  P (constant_bit T G n) (is answers_dec os)
  = share T * likelihood (share G) (repeat true n) os + (1 - share T) * likelihood (share G) (repeat false n) os.
Proof.
  intros HT HG. unfold constant_bit, P. rewrite E_bind, E_coin by assumption.
  now rewrite <- !P_sent by assumption.
Qed.

Lemma likelihood_ratio g n os b :
  0 <= g <= 1 / 2 ->
  likelihood g (repeat b n) os * g ^ n <= likelihood g (repeat (negb b) n) os * (1 - g) ^ n.
Proof.
  intros Hg. revert os. induction n as [|n IH]; intros [|o os]; simpl; try lra.
  specialize (IH os).
  pose proof (likelihood_nonneg g (repeat b n) os Hg).
  pose proof (likelihood_nonneg g (repeat (negb b) n) os Hg).
  assert (0 <= g ^ n) by (apply pow_le; lra). assert (0 <= (1 - g) ^ n) by (apply pow_le; lra).
  set (x := likelihood g (repeat b n) os * g ^ n) in *.
  set (y := likelihood g (repeat (negb b) n) os * (1 - g) ^ n) in *.
  replace (weight g b o * likelihood g (repeat b n) os * (g * g ^ n)) with (weight g b o * g * x)
    by (unfold x; ring).
  replace (weight g (negb b) o * likelihood g (repeat (negb b) n) os * ((1 - g) * (1 - g) ^ n))
    with (weight g (negb b) o * (1 - g) * y) by (unfold y; ring).
  assert (0 <= x) by (unfold x; now apply Rmult_le_pos).
  apply Rmult_le_compat; try assumption.
  - apply Rmult_le_pos; [pose proof (weight_bounds g b o Hg)|]; lra.
  - unfold weight. destruct b, o; simpl; nra.
Qed.

(** The heart of the matter: of two chances of a remembered 1 from l to 1-l, whatever is sent. *)
Lemma two_chances l A B a b p p' F :
  0 < l <= 1 / 2 -> 0 < A -> 0 <= B -> 0 <= a -> 0 <= b -> a * B <= b * A -> b * B <= a * A ->
  l <= p <= 1 - l -> l <= p' <= 1 - l ->
  (1 - l) * A + l * B <= F * (l * A + (1 - l) * B) ->
  p * a + (1 - p) * b <= F * (p' * a + (1 - p') * b).
Proof.
  intros Hl HA HB Ha Hb H1 H2 Hp Hp' HF.
  assert (D : 0 < l * A + (1 - l) * B) by nra.
  assert (F0 : 0 <= F).
  { apply (Rmult_le_reg_r (l * A + (1 - l) * B)); [assumption|]. nra. }
  assert (core : forall x y, 0 <= x -> 0 <= y -> x * B <= y * A -> y <= x ->
                 (1 - l) * x + l * y <= F * (l * x + (1 - l) * y)).
  { intros x y Hx Hy Hxy Hle.
    apply (Rmult_le_reg_r (l * A + (1 - l) * B)); [assumption|].
    apply Rle_trans with (((1 - l) * A + l * B) * (l * x + (1 - l) * y)).
    - assert (0 <= ((1 - l) * (1 - l) - l * l) * (A * y - x * B)).
      { apply Rmult_le_pos; nra. }
      nra.
    - assert (0 <= l * x + (1 - l) * y) by nra. nra. }
  destruct (Rle_dec b a) as [L|L].
  - apply Rle_trans with ((1 - l) * a + l * b); [nra|].
    eapply Rle_trans; [apply core; assumption|].
    apply Rmult_le_compat_l; [assumption | nra].
  - apply Rle_trans with ((1 - l) * b + l * a); [nra|].
    eapply Rle_trans; [apply core; lra|].
    apply Rmult_le_compat_l; [assumption | nra].
Qed.

(** What n rounds lose of a bit that stays, in the integers of the device (n = 1: one round). *)
Definition within (low G : Z) (n : nat) (L : R) : Prop :=
  (1 - share low) * (1 - share G) ^ n + share low * share G ^ n
  <= exp L * (share low * (1 - share G) ^ n + (1 - share low) * share G ^ n).

Theorem loss_of_constant_bit low G n T T' L :
  valid_low low -> valid_flip G -> valid_threshold low T -> valid_threshold low T' -> within low G n L ->
  loss L (constant_bit T G n) (constant_bit T' G n).
Proof.
  intros Hl HG HT HT' HL. apply (loss_means answers_dec). intros os.
  rewrite !P_constant_bit by (assumption || now apply in_scale with low).
  pose proof (share_flip G HG) as Hg.
  apply two_chances with (l := share low) (A := (1 - share G) ^ n) (B := share G ^ n).
  - now apply share_low.
  - apply pow_lt. lra.
  - apply pow_le. lra.
  - now apply likelihood_nonneg.
  - now apply likelihood_nonneg.
  - now apply (likelihood_ratio _ _ _ true).
  - now apply (likelihood_ratio _ _ _ false).
  - now apply share_bounds.
  - now apply share_bounds.
  - exact HL.
Qed.

(** Attained, exactly: no smaller figure is right for the pair (2^64 - low, low). *)
Theorem loss_of_constant_bit_is_tight low G n L :
  valid_low low -> valid_flip G ->
  loss L (constant_bit (SCALE - low) G n) (constant_bit low G n) -> within low G n L.
Proof.
  intros Hl HG H. pose proof Hl as [H1 H2].
  pose proof (proj1 (loss_means answers_dec _ _ _) H (repeat true n)) as H'.
  rewrite !P_constant_bit in H' by (assumption || lia).
  assert (one : forall b, likelihood (share G) (repeat b n) (repeat true n)
                          = if b then (1 - share G) ^ n else share G ^ n).
  { intros b. clear. induction n as [|n IH]; [now destruct b|]. simpl. rewrite IH. now destruct b. }
  rewrite !one in H'. unfold within.
  replace (share (SCALE - low)) with (1 - share low) in H'.
  - replace (1 - (1 - share low)) with (share low) in H' by ring. exact H'.
  - unfold share. rewrite minus_IZR. field. pose proof IZR_SCALE_positive; lra.
Qed.

Lemma exp_at_least_1 L : 0 <= L -> 1 <= exp L.
Proof. intros H. rewrite <- exp_0. now apply exp_le. Qed.

(** ** The printed formula: low rounded up, gamma rounded up *)

(** [low] is not below 2^64 / (e^h + 1), so 2^64 - low over low is not above e^h. *)
Definition coin_for (h : R) (low : Z) : Prop := IZR SCALE <= IZR low * (exp h + 1).

Lemma odds_of_coin h low : valid_low low -> coin_for h low -> 1 - share low <= exp h * share low.
Proof.
  intros [H1 _] H. unfold coin_for in H. unfold share. pose proof IZR_SCALE_positive as HS.
  apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
Qed.

(** h_n = ln( (e^h (1-gamma)^n + gamma^n) / ((1-gamma)^n + e^h gamma^n) ). *)
Definition h_of_rounds (h gamma : R) (n : nat) : R :=
  ln ((exp h * (1 - gamma) ^ n + gamma ^ n) / ((1 - gamma) ^ n + exp h * gamma ^ n)).

Lemma pow_ratio g g' n : 0 <= g <= g' -> g' <= 1 / 2 -> g ^ n * (1 - g') ^ n <= g' ^ n * (1 - g) ^ n.
Proof.
  intros H H'. rewrite <- !Rpow_mult_distr. apply pow_incr. nra.
Qed.

Theorem formula_of_rounds h gamma low G n :
  valid_low low -> valid_flip G -> 0 <= h -> coin_for h low -> 0 <= gamma <= share G ->
  within low G n (h_of_rounds h gamma n).
Proof.
  intros Hl HG Hh HC Hgamma.
  pose proof (share_flip G HG) as Hg. pose proof (share_low low Hl) as Hs.
  pose proof (odds_of_coin h low Hl HC) as Ho.
  unfold within, h_of_rounds.
  pose proof (exp_at_least_1 h Hh) as e1.
  set (e := exp h) in *. set (q := share low) in *. set (g := share G) in *.
  assert (A : 0 < (1 - g) ^ n) by (apply pow_lt; lra).
  assert (B : 0 <= g ^ n) by (apply pow_le; lra).
  assert (A0 : 0 < (1 - gamma) ^ n) by (apply pow_lt; lra).
  assert (B0 : 0 <= gamma ^ n) by (apply pow_le; lra).
  assert (AB : g ^ n <= (1 - g) ^ n) by (apply pow_incr; lra).
  assert (AB0 : gamma ^ n <= (1 - gamma) ^ n) by (apply pow_incr; lra).
  assert (cross : gamma ^ n * (1 - g) ^ n <= g ^ n * (1 - gamma) ^ n) by (apply pow_ratio; lra).
  set (a := (1 - g) ^ n) in *. set (b := g ^ n) in *.
  set (a0 := (1 - gamma) ^ n) in *. set (b0 := gamma ^ n) in *.
  assert (D : 0 < a0 + e * b0) by nra.
  rewrite exp_ln by (apply Rdiv_lt_0_compat; nra).
  apply (Rmult_le_reg_r (a0 + e * b0)); [assumption|].
  replace ((e * a0 + b0) / (a0 + e * b0) * (q * a + (1 - q) * b) * (a0 + e * b0))
    with ((e * a0 + b0) * (q * a + (1 - q) * b)) by (field; lra).
  assert (0 <= (e * q - (1 - q)) * (a * a0 - b * b0)) by (apply Rmult_le_pos; nra).
  assert (0 <= (e * (1 - q) - q) * (a0 * b - a * b0)) by (apply Rmult_le_pos; nra).
  nra.
Qed.

(** All rounds together: never more than e^h (the remembered bit itself). *)
Theorem formula_of_all_rounds h low G n :
  valid_low low -> valid_flip G -> 0 <= h -> coin_for h low -> within low G n h.
Proof.
  intros Hl HG Hh HC. pose proof (share_flip G HG) as Hg. pose proof (share_low low Hl) as Hs.
  pose proof (odds_of_coin h low Hl HC) as Ho. unfold within.
  pose proof (exp_at_least_1 h Hh) as e1.
  assert (A : 0 < (1 - share G) ^ n) by (apply pow_lt; lra).
  assert (B : 0 <= share G ^ n) by (apply pow_le; lra).
  set (x := (1 - share G) ^ n) in *. set (y := share G ^ n) in *. set (q := share low) in *.
  assert ((1 - q) * x <= exp h * q * x) by (apply Rmult_le_compat_r; lra).
  assert (q * y <= exp h * (1 - q) * y) by (apply Rmult_le_compat_r; nra).
  lra.
Qed.

Lemma ln_le' x y : 0 < x -> x <= y -> ln x <= ln y.
Proof. intros H [H'| ->]; [left; now apply ln_increasing | lra]. Qed.

(** h_n grows with n, from h' to at most h. *)
Theorem h_of_rounds_grows h gamma n :
  0 <= h -> 0 <= gamma <= 1 / 2 -> h_of_rounds h gamma n <= h_of_rounds h gamma (S n).
Proof.
  intros Hh Hg. unfold h_of_rounds.
  pose proof (exp_at_least_1 h Hh) as e1.
  set (e := exp h) in *.
  assert (A : 0 < (1 - gamma) ^ n) by (apply pow_lt; lra).
  assert (B : 0 <= gamma ^ n) by (apply pow_le; lra).
  simpl. set (a := (1 - gamma) ^ n) in *. set (b := gamma ^ n) in *.
  assert (D : 0 < a + e * b) by nra.
  assert (D' : 0 < (1 - gamma) * a + e * (gamma * b)).
  { assert (0 < (1 - gamma) * a) by nra. assert (0 <= e * (gamma * b)) by (apply Rmult_le_pos; nra). lra. }
  assert (N : 0 < e * a + b) by nra.
  apply ln_le'; [now apply Rdiv_lt_0_compat|].
  apply (Rmult_le_reg_r (a + e * b)); [assumption|].
  replace ((e * a + b) / (a + e * b) * (a + e * b)) with (e * a + b) by (field; lra).
  apply (Rmult_le_reg_r ((1 - gamma) * a + e * (gamma * b))); [assumption|].
  replace ((e * ((1 - gamma) * a) + gamma * b) / ((1 - gamma) * a + e * (gamma * b)) * (a + e * b)
           * ((1 - gamma) * a + e * (gamma * b)))
    with ((e * ((1 - gamma) * a) + gamma * b) * (a + e * b)) by (field; lra).
  assert (0 <= (1 - 2 * gamma) * ((e * e - 1) * (a * b))).
  { apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; nra. }
  nra.
Qed.

Theorem h_of_rounds_at_most h gamma n : 0 <= h -> 0 <= gamma <= 1 / 2 -> h_of_rounds h gamma n <= h.
Proof.
  intros Hh Hg. unfold h_of_rounds. rewrite <- (ln_exp h) at 3.
  pose proof (exp_at_least_1 h Hh) as e1.
  set (e := exp h) in *.
  assert (A : 0 < (1 - gamma) ^ n) by (apply pow_lt; lra).
  assert (B : 0 <= gamma ^ n) by (apply pow_le; lra).
  assert (D : 0 < (1 - gamma) ^ n + e * gamma ^ n) by nra.
  apply ln_le'; [apply Rdiv_lt_0_compat; nra|].
  apply (Rmult_le_reg_r ((1 - gamma) ^ n + e * gamma ^ n)); [assumption|].
  replace ((e * (1 - gamma) ^ n + gamma ^ n) / ((1 - gamma) ^ n + e * gamma ^ n)
           * ((1 - gamma) ^ n + e * gamma ^ n))
    with (e * (1 - gamma) ^ n + gamma ^ n) by (field; lra).
  assert (1 <= e * e) by nra.
  assert (1 * gamma ^ n <= e * e * gamma ^ n) by (now apply Rmult_le_compat_r). lra.
Qed.

(** ** A flip hides one remembered bit *)

(** Lambda = ln((1-g)/g), in the integers of the device. *)
Definition hides (G : Z) (L : R) : Prop := IZR (SCALE - G) <= exp L * IZR G.

Lemma hides_share G L : hides G L -> 1 - share G <= exp L * share G.
Proof.
  unfold hides, share. rewrite minus_IZR. intros H. pose proof IZR_SCALE_positive as HS.
  apply (Rmult_le_reg_r (IZR SCALE)); [assumption|]. field_simplify; lra.
Qed.

Lemma loss_of_flip G L b b' : valid_flip G -> 0 <= L -> hides G L -> loss L (seen G b) (seen G b').
Proof.
  intros HG HL H f F. rewrite !E_seen by assumption.
  apply hides_share in H. pose proof (share_flip G HG) as Hg. pose proof (exp_at_least_1 L HL) as e1.
  pose proof (F true) as Ft. pose proof (F false) as Ff.
  assert (W : forall o, weight (share G) b o <= exp L * weight (share G) b' o).
  { intros o. unfold weight. destruct b, b', o; simpl; nra. }
  pose proof (W true). pose proof (W false).
  rewrite Rmult_plus_distr_l, <- !Rmult_assoc.
  apply Rplus_le_compat; apply Rmult_le_compat_r; assumption.
Qed.

(** Remembered bits that differ in [delta] rounds. *)
Fixpoint differing (bs bs' : list bool) : nat :=
  match bs, bs' with
  | b :: r, b' :: r' => (if eqb b b' then 0 else 1) + differing r r'
  | _, _ => 0
  end.

Lemma loss_of_sent G L bs bs' :
  valid_flip G -> 0 <= L -> hides G L -> length bs = length bs' ->
  loss (INR (differing bs bs') * L) (sent G bs) (sent G bs').
Proof.
  intros HG HL H. revert bs'. induction bs as [|b bs IH]; intros [|b' bs'] Len; try discriminate.
  - simpl. rewrite Rmult_0_l. apply loss_0.
  - unfold sent. change (loss (INR (differing (b :: bs) (b' :: bs')) * L)
      (a <- seen G b ;; l <- each (map (seen G) bs) ;; Ret (a :: l))
      (a <- seen G b' ;; l <- each (map (seen G) bs') ;; Ret (a :: l))).
    change (differing (b :: bs) (b' :: bs')) with ((if eqb b b' then 0 else 1) + differing bs bs')%nat.
    rewrite plus_INR, Rmult_plus_distr_r. apply loss_bind.
    + destruct (eqb b b') eqn:Eb.
      * apply eqb_prop in Eb as ->. simpl. rewrite Rmult_0_l. apply loss_0.
      * simpl. rewrite Rmult_1_l. now apply loss_of_flip.
    + intros a. apply loss_after. apply IH. simpl in Len. lia.
Qed.
