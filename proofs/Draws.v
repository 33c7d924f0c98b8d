(** * Finite probability: programs that draw 64-bit words

    No measure theory: a mean is a finite sum, and a loss is what the paper and CLAIMS say ([loss_sets]).          *)

From Coq Require Import Reals ZArith List Lia Lra Psatz.
From Reticent Require Import Definitions.
Import ListNotations.
Open Scope R_scope.

Lemma SCALE_positive : (0 < SCALE)%Z.
Proof. reflexivity. Qed.
Global Opaque SCALE.

Lemma Z_words : Z.of_nat words = SCALE.
Proof. exact (proj2_sig number_of_words). Qed.

Lemma IZR_SCALE_positive : 0 < IZR SCALE.
Proof. apply IZR_lt, SCALE_positive. Qed.

Global Hint Resolve SCALE_positive IZR_SCALE_positive : core.

(** ** Sums over words *)

Lemma sum_below_ext n f g :
  (forall u, (0 <= u < Z.of_nat n)%Z -> f u = g u) -> sum_below n f = sum_below n g.
Proof.
  induction n as [|n IH]; intros H; simpl; [reflexivity|].
  rewrite IH, H; [reflexivity | lia | intros; apply H; lia].
Qed.

Lemma sum_below_le n f g :
  (forall u, (0 <= u < Z.of_nat n)%Z -> f u <= g u) -> sum_below n f <= sum_below n g.
Proof.
  induction n as [|n IH]; intros H; simpl; [lra|].
  apply Rplus_le_compat; [apply IH; intros; apply H | apply H]; lia.
Qed.

Lemma sum_below_plus n f g : sum_below n (fun u => f u + g u) = sum_below n f + sum_below n g.
Proof. induction n as [|n IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma sum_below_scal n c f : sum_below n (fun u => c * f u) = c * sum_below n f.
Proof. induction n as [|n IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma sum_below_const n c : sum_below n (fun _ => c) = INR n * c.
Proof. induction n as [|n IH]; [simpl; lra|]. rewrite S_INR. simpl. rewrite IH. lra. Qed.

Lemma sum_below_swap n m (f : Z -> Z -> R) :
  sum_below n (fun u => sum_below m (f u)) = sum_below m (fun v => sum_below n (fun u => f u v)).
Proof.
  induction n as [|n IH]; simpl.
  - rewrite sum_below_const. lra.
  - now rewrite IH, <- sum_below_plus.
Qed.

Lemma sum_below_threshold n (T : Z) a b :
  (0 <= T <= Z.of_nat n)%Z ->
  sum_below n (fun u => if (u <? T)%Z then a else b) = IZR T * a + (INR n - IZR T) * b.
Proof.
  revert T. induction n as [|n IH]; intros T H; [replace T with 0%Z by lia; simpl; lra|].
  rewrite S_INR. simpl sum_below. destruct (Z.ltb_spec (Z.of_nat n) T) as [E|E]; [|rewrite IH by lia; lra].
  assert (T = Z.of_nat n + 1)%Z as -> by lia. rewrite (sum_below_ext n _ (fun _ => a)).
  - rewrite sum_below_const, plus_IZR, <- INR_IZR_INZ. simpl. lra.
  - intros u Hu. destruct (Z.ltb_spec u (Z.of_nat n + 1)); [reflexivity | lia].
Qed.

Lemma INR_words : INR words = IZR SCALE.
Proof. now rewrite INR_IZR_INZ, Z_words. Qed.

Lemma mean_ext f g : (forall u, (0 <= u < SCALE)%Z -> f u = g u) -> mean f = mean g.
Proof. intros H. unfold mean. f_equal. apply sum_below_ext. rewrite Z_words. exact H. Qed.

Lemma mean_le f g : (forall u, (0 <= u < SCALE)%Z -> f u <= g u) -> mean f <= mean g.
Proof.
  intros H. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; auto|].
  apply sum_below_le. rewrite Z_words. exact H.
Qed.

Lemma mean_plus f g : mean (fun u => f u + g u) = mean f + mean g.
Proof. unfold mean. rewrite sum_below_plus. lra. Qed.

Lemma mean_scal c f : mean (fun u => c * f u) = c * mean f.
Proof. unfold mean. rewrite sum_below_scal. lra. Qed.

Lemma mean_const c : mean (fun _ => c) = c.
Proof. unfold mean. rewrite sum_below_const, INR_words. field. pose proof IZR_SCALE_positive; lra. Qed.

Lemma mean_swap (f : Z -> Z -> R) : mean (fun u => mean (f u)) = mean (fun v => mean (fun u => f u v)).
Proof.
  unfold mean, Rdiv. f_equal.
  rewrite (sum_below_ext _ _ (fun u => / IZR SCALE * sum_below words (f u))) by (intros; lra).
  rewrite sum_below_scal, sum_below_swap, <- sum_below_scal. apply sum_below_ext. intros; lra.
Qed.

(** A word is below a threshold T with chance T / 2^64. *)
Lemma mean_threshold (T : Z) a b :
  (0 <= T <= SCALE)%Z ->
  mean (fun u => if (u <? T)%Z then a else b) = IZR T / IZR SCALE * a + (1 - IZR T / IZR SCALE) * b.
Proof.
  intros H. unfold mean. rewrite sum_below_threshold by (rewrite Z_words; exact H).
  rewrite INR_words. field. pose proof IZR_SCALE_positive; lra.
Qed.

(** ** Programs *)

Lemma E_bind {A B} (m : program A) (k : A -> program B) f : E (bind m k) f = E m (fun a => E (k a) f).
Proof. induction m as [a|next IH]; simpl; [reflexivity|]. apply mean_ext. auto. Qed.

Lemma E_ext {A} (m : program A) f g : (forall a, f a = g a) -> E m f = E m g.
Proof. intros H. induction m as [a|next IH]; simpl; [auto|]. apply mean_ext. auto. Qed.

Lemma E_le {A} (m : program A) f g : (forall a, f a <= g a) -> E m f <= E m g.
Proof. intros H. induction m as [a|next IH]; simpl; [auto|]. apply mean_le. auto. Qed.

Lemma E_const {A} (m : program A) c : E m (fun _ => c) = c.
Proof. induction m as [a|next IH]; simpl; [reflexivity|]. erewrite mean_ext; [apply mean_const|]. auto. Qed.

Lemma E_scal {A} (m : program A) c f : E m (fun a => c * f a) = c * E m f.
Proof.
  induction m as [a|next IH]; simpl; [reflexivity|].
  rewrite <- mean_scal. apply mean_ext. auto.
Qed.

Lemma E_nonneg {A} (m : program A) f : (forall a, 0 <= f a) -> 0 <= E m f.
Proof. intros H. rewrite <- (E_const m 0). apply E_le. exact H. Qed.

Lemma E_each_cons {A} (m : program A) rest f :
  E (each (m :: rest)) f = E m (fun a => E (each rest) (fun l => f (a :: l))).
Proof. simpl each. rewrite E_bind. apply E_ext. intros a. now rewrite E_bind. Qed.

Lemma E_draws_S n f : E (draws (S n)) f = mean (fun u => E (draws n) (fun us => f (u :: us))).
Proof. simpl. apply mean_ext. intros u _. now rewrite E_bind. Qed.

(** ** Loss *)

(** In particular for every set of things that may be sent. *)
Theorem loss_sets {A} L (X Y : program A) : loss L X Y -> forall S, P X S <= exp L * P Y S.
Proof. intros H S. apply H. intros a. destruct (S a); lra. Qed.

(** Sums over a list. *)
Fixpoint total {A} (l : list A) (f : A -> R) : R :=
  match l with
  | [] => 0
  | a :: rest => f a + total rest f
  end.

Lemma total_ext {A} (l : list A) f g : (forall a, In a l -> f a = g a) -> total l f = total l g.
Proof.
  induction l as [|a l IH]; intros H; simpl; [reflexivity|].
  rewrite H, IH; auto with datatypes.
Qed.

Lemma total_le {A} (l : list A) f g : (forall a, In a l -> f a <= g a) -> total l f <= total l g.
Proof.
  induction l as [|a l IH]; intros H; simpl; [lra|].
  apply Rplus_le_compat; auto with datatypes.
Qed.

Lemma total_scal {A} (l : list A) c f : total l (fun a => c * f a) = c * total l f.
Proof. induction l as [|a l IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma total_plus {A} (l : list A) f g : total l (fun a => f a + g a) = total l f + total l g.
Proof. induction l as [|a l IH]; simpl; [lra | rewrite IH; lra]. Qed.

Lemma total_const {A} (l : list A) c : total l (fun _ => c) = INR (length l) * c.
Proof.
  induction l as [|a l IH]; [simpl; lra|].
  change (length (a :: l)) with (S (length l)). rewrite S_INR. simpl. rewrite IH. lra.
Qed.

Lemma total_nonneg {A} (l : list A) f : (forall a, In a l -> 0 <= f a) -> 0 <= total l f.
Proof.
  intros H. rewrite <- (Rmult_0_r (INR (length l))), <- total_const. apply total_le. exact H.
Qed.

Lemma total_map {A B} (f : A -> B) l g : total (map f l) g = total l (fun a => g (f a)).
Proof. induction l as [|a l IH]; simpl; [reflexivity | now rewrite IH]. Qed.

Lemma total_filter {A} (l : list A) (b : A -> bool) f : (forall a, In a l -> 0 <= f a) -> total (filter b l) f <= total l f.
Proof.
  induction l as [|a l IH]; intros H; simpl; [lra|]. specialize (IH (fun c Hc => H c (or_intror Hc))).
  pose proof (H a (or_introl eq_refl)). destruct (b a); simpl; lra.
Qed.

(** ** What follows for every program *)

Lemma loss_0 {A} (X : program A) : loss 0 X X.
Proof. intros f F. rewrite exp_0. lra. Qed.

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [H| ->]; [left; now apply exp_increasing | lra]. Qed.

Lemma loss_weaken {A} L L' (X Y : program A) : L <= L' -> loss L X Y -> loss L' X Y.
Proof.
  intros H HL f F. eapply Rle_trans; [now apply HL|].
  apply Rmult_le_compat_r; [now apply E_nonneg | now apply exp_le].
Qed.

Lemma loss_law {A} L (X X' Y Y' : program A) :
  (forall f, E X f = E X' f) -> (forall f, E Y f = E Y' f) -> loss L X' Y' -> loss L X Y.
Proof. intros HX HY H f F. rewrite HX, HY. now apply H. Qed.

(** Sequential composition: the losses of two parts with words of their own add up. *)
Theorem loss_bind {A B} L M (X Y : program A) (k k' : A -> program B) :
  loss L X Y -> (forall a, loss M (k a) (k' a)) -> loss (L + M) (bind X k) (bind Y k').
Proof.
  intros HL HM f F. rewrite !E_bind, exp_plus, Rmult_assoc, <- E_scal.
  eapply Rle_trans; [apply HL; intros; now apply E_nonneg|].
  apply Rmult_le_compat_l; [left; apply exp_pos|].
  apply E_le. intros a. now apply HM.
Qed.

(** Post-processing: whatever is made of an answer, with further words or without, loses no more. *)
Theorem loss_after {A B} L (X Y : program A) (k : A -> program B) : loss L X Y -> loss L (bind X k) (bind Y k).
Proof.
  intros H. rewrite <- (Rplus_0_r L). apply loss_bind; [assumption | intros; apply loss_0].
Qed.

(** What is drawn first, whatever the value (alpha, cohort, the round and metrics of a window, an id): if the rest
    loses at most L given it, so does the whole. *)
Theorem loss_given {A B} L (X : program A) (k k' : A -> program B) :
  (forall a, loss L (k a) (k' a)) -> loss L (bind X k) (bind X k').
Proof.
  intros H. rewrite <- (Rplus_0_l L). apply loss_bind; [apply loss_0 | assumption].
Qed.

(** [compose]: several answers with words of their own. *)
Lemma loss_each_map {A B} (l : list B) (f g : B -> program A) (L : B -> R) :
  (forall b, In b l -> loss (L b) (f b) (g b)) -> loss (total l L) (each (map f l)) (each (map g l)).
Proof.
  induction l as [|b l IH]; intros H; simpl; [apply loss_0|].
  apply loss_bind; [apply H; simpl; auto|]. intros a. apply loss_after, IH. auto with datatypes.
Qed.
