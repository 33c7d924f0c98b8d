(** * The input of the keyed function: different fields, different words (src/reticent/device/prf.py)

    [encode] puts before each field its length in four bytes, so two lists of fields that are not equal never give the
    same bytes. That a keyed hash of different bytes gives independent uniform words is assumed, not proved.        *)

From Coq Require Import List ZArith Lia.
Import ListNotations.
Open Scope Z_scope.

(** n bytes of a number, the highest first. *)
Fixpoint big_endian (n : nat) (x : Z) : list Z :=
  match n with
  | O => []
  | S k => big_endian k (x / 256) ++ [x mod 256]
  end.

Definition encode (fields : list (list Z)) : list Z :=
  flat_map (fun field => big_endian 4 (Z.of_nat (length field)) ++ field) fields.

Definition short (field : list Z) : Prop := Z.of_nat (length field) < 256 ^ 4.

Lemma big_endian_length n x : length (big_endian n x) = n.
Proof. revert x. induction n as [|n IH]; intros x; simpl; [reflexivity|]. rewrite app_length, IH. simpl. lia. Qed.

Lemma big_endian_injective n x y :
  0 <= x < 256 ^ Z.of_nat n -> 0 <= y < 256 ^ Z.of_nat n -> big_endian n x = big_endian n y -> x = y.
Proof.
  revert x y. induction n as [|n IH]; intros x y Hx Hy E; [simpl in *; lia|].
  rewrite Nat2Z.inj_succ, Z.pow_succ_r in Hx, Hy by lia. simpl in E. apply app_inj_tail in E as [E M].
  assert (x / 256 = y / 256).
  { apply IH; [| |assumption]; (split; [apply Z.div_pos | apply Z.div_lt_upper_bound]); lia. }
  rewrite (Z.div_mod x 256), (Z.div_mod y 256) by lia. congruence.
Qed.

Lemma app_split {A} (a b c d : list A) : length a = length c -> a ++ b = c ++ d -> a = c /\ b = d.
Proof.
  revert c. induction a as [|x a IH]; intros [|y c] L E; simpl in *; try discriminate; [auto|].
  injection E as -> E. destruct (IH c ltac:(lia) E) as [-> ->]. auto.
Qed.

Theorem encode_injective fields fields' :
  Forall short fields -> Forall short fields' -> encode fields = encode fields' -> fields = fields'.
Proof.
  intros H. revert fields'. induction H as [|f fs Hf H IH]; intros [|g gs] H' E; try reflexivity.
  - apply (f_equal (@length Z)) in E. unfold encode in E. cbn [flat_map] in E.
    rewrite !app_length, big_endian_length in E. simpl in E. lia.
  - apply (f_equal (@length Z)) in E. unfold encode in E. cbn [flat_map] in E.
    rewrite !app_length, big_endian_length in E. simpl in E. lia.
  - inversion_clear H' as [|? ? Hg Hgs]. unfold encode in E. cbn [flat_map] in E. rewrite <- !app_assoc in E.
    apply app_split in E as [EL E]; [|now rewrite !big_endian_length].
    apply big_endian_injective in EL; [|unfold short in *; simpl Z.of_nat; lia..].
    apply app_split in E as [-> E]; [|lia]. f_equal. now apply IH.
Qed.
