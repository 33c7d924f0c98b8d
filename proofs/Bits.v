(** * One answer bit: remembered with a threshold, sent through flips

    The remembered bit is [word < threshold], the sent bit is the remembered one xor [word < G], with a fresh word
    for the flip in each round (src/reticent/device/answers.py). Thresholds are from [low] to 2^64 - [low].       *)

From Coq Require Import Reals ZArith List Lia Lra Psatz Bool.
From Reticent Require Import Definitions Draws.
Import ListNotations.
Open Scope R_scope.

(** ** Shares of 2^64 *)

Definition share (T : Z) : R := IZR T / IZR SCALE.

Lemma share_le a b : (a <= b)%Z -> share a <= share b.
Proof. intros H. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; auto | now apply IZR_le]. Qed.

Lemma share_times T : share T * IZR SCALE = IZR T.
Proof. unfold share. field. pose proof IZR_SCALE_positive; lra. Qed.

Lemma share_rest T : share (SCALE - T) = 1 - share T.
Proof. unfold share. rewrite minus_IZR. field. pose proof IZR_SCALE_positive; lra. Qed.

Lemma share_0 : share 0 = 0.
Proof. unfold share. unfold Rdiv. ring. Qed.

Lemma share_all : share SCALE = 1.
Proof. pose proof (share_rest 0) as H. rewrite Z.sub_0_r, share_0 in H. lra. Qed.

Lemma share_bounds low T : valid_threshold low T -> share low <= share T <= 1 - share low.
Proof. intros [H1 H2]. rewrite <- share_rest. split; now apply share_le. Qed.

Lemma share_half G : (0 <= G /\ 2 * G <= SCALE)%Z -> 0 <= share G <= 1 / 2.
Proof.
  intros [H1 H2]. rewrite <- share_0. split; [now apply share_le|].
  assert (H : (G <= SCALE - G)%Z) by lia. apply share_le in H. rewrite share_rest in H. lra.
Qed.

Definition share_flip G (H : valid_flip G) := share_half G H.

Lemma share_low low : valid_low low -> 0 < share low <= 1 / 2.
Proof.
  intros [H1 H2]. split; [|apply share_half; lia]. apply Rdiv_lt_0_compat; [now apply IZR_lt | auto].
Qed.

Lemma in_scale low T : valid_low low -> valid_threshold low T -> (0 <= T <= SCALE)%Z.
Proof. unfold valid_low, valid_threshold. lia. Qed.

(** From shares to whole numbers. *)
Lemma by_shares a b e : IZR a <= e * IZR b <-> share a <= e * share b.
Proof.
  pose proof IZR_SCALE_positive. rewrite <- (share_times a), <- (share_times b), <- Rmult_assoc.
  split; intros H'; [now apply Rmult_le_reg_r in H' | apply Rmult_le_compat_r; lra].
Qed.

(** ** The law of a bit *)

Definition coin (T : Z) : program bool := u <- draw ;; Ret (u <? T)%Z.

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
  intros [H1 H2]. unfold seen. simpl. rewrite (mean_ext _ (fun u => if (u <? G)%Z then f (negb b) else f b)).
  - rewrite mean_threshold by lia. unfold weight, share. destruct b; simpl; lra.
  - intros u _. destruct (u <? G)%Z, b; reflexivity.
Qed.

Lemma E_sent_cons G b bs f : valid_flip G ->
  E (sent G (b :: bs)) f = weight (share G) b true * E (sent G bs) (fun l => f (true :: l))
                           + weight (share G) b false * E (sent G bs) (fun l => f (false :: l)).
Proof. intros HG. unfold sent. cbn [map]. now rewrite E_each_cons, E_seen. Qed.

(** ** One remembered bit, seen n times *)

Definition constant_bit (T G : Z) (n : nat) : program (list bool) := b <- coin T ;; sent G (repeat b n).

Lemma E_constant_bit T G n f : (0 <= T <= SCALE)%Z ->
  E (constant_bit T G n) f = share T * E (sent G (repeat true n)) f + (1 - share T) * E (sent G (repeat false n)) f.
Proof. intros H. unfold constant_bit. now rewrite E_bind, E_coin. Qed.

(** What n flips leave of the difference of two remembered bits. *)
Lemma flips_hide G n b f : valid_flip G -> (forall l, 0 <= f l) ->
  E (sent G (repeat b n)) f * share G ^ n <= E (sent G (repeat (negb b) n)) f * (1 - share G) ^ n.
Proof.
  intros HG. pose proof (share_flip G HG) as g2. revert f. induction n as [|n IH]; intros f F; [simpl; lra|].
  cbn [repeat pow]. rewrite !E_sent_cons by assumption.
  pose proof (IH _ (fun l => F (true :: l))) as T1. pose proof (IH _ (fun l => F (false :: l))) as T2.
  pose proof (E_nonneg (sent G (repeat b n)) _ (fun l => F (true :: l))) as N1.
  pose proof (E_nonneg (sent G (repeat b n)) _ (fun l => F (false :: l))) as N2.
  set (p := E (sent G (repeat b n)) (fun l => f (true :: l))) in *.
  set (q := E (sent G (repeat b n)) (fun l => f (false :: l))) in *.
  set (p' := E (sent G (repeat (negb b) n)) (fun l => f (true :: l))) in *.
  set (q' := E (sent G (repeat (negb b) n)) (fun l => f (false :: l))) in *.
  set (g := share G) in *. assert (0 <= g ^ n) by (apply pow_le; lra).
  assert (one : forall o x y, 0 <= x * g ^ n <= y -> weight g b o * g * (x * g ^ n) <= weight g (negb b) o * (1 - g) * y).
  { intros o x y [X Y]. apply Rmult_le_compat; auto; unfold weight; destruct b, o; simpl; nra. }
  pose proof (one true p _ (conj (Rmult_le_pos _ _ N1 H) T1)).
  pose proof (one false q _ (conj (Rmult_le_pos _ _ N2 H) T2)). nra.
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
  assert (F0 : 0 <= F) by (apply (Rmult_le_reg_r (l * A + (1 - l) * B)); nra).
  assert (core : forall x y, 0 <= x -> 0 <= y -> x * B <= y * A -> y <= x ->
                 (1 - l) * x + l * y <= F * (l * x + (1 - l) * y)).
  { intros x y Hx Hy Hxy Hle. apply (Rmult_le_reg_r (l * A + (1 - l) * B)); [assumption|].
    apply Rle_trans with (((1 - l) * A + l * B) * (l * x + (1 - l) * y)).
    - assert (0 <= ((1 - l) * (1 - l) - l * l) * (A * y - x * B)) by (apply Rmult_le_pos; nra). nra.
    - assert (0 <= l * x + (1 - l) * y) by nra. nra. }
  destruct (Rle_dec b a) as [L|L].
  - apply Rle_trans with ((1 - l) * a + l * b); [nra|].
    eapply Rle_trans; [apply core; assumption|]. apply Rmult_le_compat_l; [assumption | nra].
  - apply Rle_trans with ((1 - l) * b + l * a); [nra|].
    eapply Rle_trans; [apply core; lra|]. apply Rmult_le_compat_l; [assumption | nra].
Qed.

(** What n rounds lose of a bit that stays, in the integers of the device (n = 1: one round). *)
Definition covers (low G : Z) (n : nat) (L : R) : Prop :=
  (1 - share low) * (1 - share G) ^ n + share low * share G ^ n
  <= exp L * (share low * (1 - share G) ^ n + (1 - share low) * share G ^ n).

Theorem loss_of_constant_bit low G n T T' L :
  valid_low low -> valid_flip G -> valid_threshold low T -> valid_threshold low T' -> covers low G n L ->
  loss L (constant_bit T G n) (constant_bit T' G n).
Proof.
  intros Hl HG HT HT' HL f F. rewrite !E_constant_bit by (now apply in_scale with low).
  pose proof (share_flip G HG) as Hg.
  apply two_chances with (l := share low) (A := (1 - share G) ^ n) (B := share G ^ n);
    auto using share_low, share_bounds, E_nonneg.
  - apply pow_lt. lra.
  - apply pow_le. lra.
  - now apply (flips_hide G n true).
  - now apply (flips_hide G n false).
Qed.

(** Attained, exactly: no smaller figure is right for the pair (2^64 - low, low). *)
Theorem loss_of_constant_bit_is_tight low G n L :
  valid_low low -> valid_flip G ->
  loss L (constant_bit (SCALE - low) G n) (constant_bit low G n) -> covers low G n L.
Proof.
  intros [H1 H2] HG H. specialize (H (fun l => if forallb (fun o => o) l then 1 else 0)).
  rewrite !E_constant_bit, share_rest in H by lia.
  assert (one : forall b, E (sent G (repeat b n)) (fun l => if forallb (fun o => o) l then 1 else 0)
                          = if b then (1 - share G) ^ n else share G ^ n).
  { intros b. clear H. induction n as [|k IH]; [now destruct b|]. cbn [repeat]. rewrite E_sent_cons by assumption.
    simpl forallb. rewrite IH, E_const. unfold weight. destruct b; simpl; ring. }
  rewrite !one in H. unfold covers. replace (1 - (1 - share low)) with (share low) in H by ring.
  apply H. intros l. destruct (forallb _ l); lra.
Qed.

(** ** The printed formula: low rounded up, gamma rounded up *)

Lemma exp_at_least_1 L : 0 <= L -> 1 <= exp L.
Proof. intros H. rewrite <- exp_0. now apply exp_le. Qed.

Lemma ln_le' x y : 0 < x -> x <= y -> ln x <= ln y.
Proof. intros H [H'| ->]; [left; now apply ln_increasing | lra]. Qed.

(** [low] is not below 2^64 / (e^h + 1), so 2^64 - low over low is not above e^h. *)
Definition coin_for (h : R) (low : Z) : Prop := IZR SCALE <= IZR low * (exp h + 1).

Lemma odds_of_coin h low : coin_for h low -> 1 - share low <= exp h * share low.
Proof. unfold coin_for. intros H. rewrite <- share_rest. apply by_shares. rewrite minus_IZR. lra. Qed.

(** h_n = ln( (e^h (1-gamma)^n + gamma^n) / ((1-gamma)^n + e^h gamma^n) ). *)
Definition h_of_rounds (h gamma : R) (n : nat) : R :=
  ln ((exp h * (1 - gamma) ^ n + gamma ^ n) / ((1 - gamma) ^ n + exp h * gamma ^ n)).

(** Powers of flips, and which way they are ordered. *)
Lemma powers g n : 0 <= g <= 1 / 2 -> 0 < (1 - g) ^ n /\ 0 <= g ^ n <= (1 - g) ^ n.
Proof. intros H. split; [apply pow_lt; lra|]. split; [apply pow_le; lra | apply pow_incr; lra]. Qed.

Lemma h_of_rounds_nonneg h gamma n : 0 <= h -> 0 <= gamma <= 1 / 2 -> 0 <= h_of_rounds h gamma n.
Proof.
  intros Hh Hg. pose proof (exp_at_least_1 h Hh). destruct (powers gamma n Hg) as [A [B AB]].
  unfold h_of_rounds. rewrite <- ln_1. apply ln_le'; [lra|].
  set (a := (1 - gamma) ^ n) in *. set (b := gamma ^ n) in *.
  apply (Rmult_le_reg_r (a + exp h * b)); [nra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by nra. nra.
Qed.

Theorem formula_of_rounds h gamma low G n :
  valid_low low -> valid_flip G -> 0 <= h -> coin_for h low -> 0 <= gamma <= share G ->
  covers low G n (h_of_rounds h gamma n).
Proof.
  intros Hl HG Hh HC Hgamma. pose proof (share_flip G HG) as Hg. pose proof (share_low low Hl) as Hs.
  pose proof (odds_of_coin h low HC) as Ho. unfold covers, h_of_rounds. pose proof (exp_at_least_1 h Hh) as e1.
  destruct (powers (share G) n Hg) as [A [B AB]]. destruct (powers gamma n ltac:(lra)) as [A0 [B0 AB0]].
  set (e := exp h) in *. set (q := share low) in *. set (g := share G) in *.
  assert (cross : gamma ^ n * (1 - g) ^ n <= g ^ n * (1 - gamma) ^ n).
  { rewrite <- !Rpow_mult_distr. apply pow_incr. nra. }
  set (a := (1 - g) ^ n) in *. set (b := g ^ n) in *.
  set (a0 := (1 - gamma) ^ n) in *. set (b0 := gamma ^ n) in *.
  assert (D : 0 < a0 + e * b0) by nra. rewrite exp_ln by (apply Rdiv_lt_0_compat; nra).
  apply (Rmult_le_reg_r (a0 + e * b0)); [assumption|].
  replace ((e * a0 + b0) / (a0 + e * b0) * (q * a + (1 - q) * b) * (a0 + e * b0))
    with ((e * a0 + b0) * (q * a + (1 - q) * b)) by (field; lra).
  assert (0 <= (e * q - (1 - q)) * (a * a0 - b * b0)) by (apply Rmult_le_pos; nra).
  assert (0 <= (e * (1 - q) - q) * (a0 * b - a * b0)) by (apply Rmult_le_pos; nra). nra.
Qed.

(** All rounds together: never more than e^h (the remembered bit itself). *)
Theorem formula_of_all_rounds h low G n :
  valid_low low -> valid_flip G -> 0 <= h -> coin_for h low -> covers low G n h.
Proof.
  intros Hl HG Hh HC. destruct (powers (share G) n (share_flip G HG)) as [A [B _]]. pose proof (share_low low Hl).
  pose proof (odds_of_coin h low HC) as Ho. unfold covers. pose proof (exp_at_least_1 h Hh) as e1.
  set (x := (1 - share G) ^ n) in *. set (y := share G ^ n) in *. set (q := share low) in *.
  assert ((1 - q) * x <= exp h * q * x) by (apply Rmult_le_compat_r; lra).
  assert (q * y <= exp h * (1 - q) * y) by (apply Rmult_le_compat_r; nra). lra.
Qed.

(** ** A flip hides one remembered bit *)

(** Lambda = ln((1-g)/g), in the integers of the device. *)
Definition hides (G : Z) (L : R) : Prop := IZR (SCALE - G) <= exp L * IZR G.

Lemma hides_share G L : hides G L -> 1 - share G <= exp L * share G.
Proof. intros H. rewrite <- share_rest. now apply by_shares. Qed.

Lemma loss_of_flip G L b b' : valid_flip G -> 0 <= L -> hides G L -> loss L (seen G b) (seen G b').
Proof.
  intros HG HL H f F. rewrite !E_seen by assumption.
  apply hides_share in H. pose proof (share_flip G HG) as Hg. pose proof (exp_at_least_1 L HL) as e1.
  pose proof (F true) as Ft. pose proof (F false) as Ff.
  assert (W : forall o, weight (share G) b o <= exp L * weight (share G) b' o).
  { intros o. unfold weight. destruct b, b', o; simpl; nra. }
  pose proof (W true). pose proof (W false). rewrite Rmult_plus_distr_l, <- !Rmult_assoc.
  apply Rplus_le_compat; apply Rmult_le_compat_r; assumption.
Qed.

Lemma differ_in_map {A B} (f : A -> B) n xs ys : differ_in n xs ys -> differ_in n (map f xs) (map f ys).
Proof. induction 1; simpl; now constructor. Qed.

(** Remembered bits that differ in n rounds. *)
Lemma loss_of_sent G L n bs bs' :
  valid_flip G -> 0 <= L -> hides G L -> differ_in n bs bs' -> loss (INR n * L) (sent G bs) (sent G bs').
Proof.
  intros HG HL H. induction 1 as [n | n b bs bs' D IH | n b b' bs bs' D IH].
  - apply loss_weaken with 0; [|apply loss_0]. apply Rmult_le_pos; [apply pos_INR | assumption].
  - apply (loss_given _ (seen G b)). intros a. now apply loss_after.
  - rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, Rplus_comm. apply (loss_bind L); [now apply loss_of_flip|].
    intros a. now apply loss_after.
Qed.
