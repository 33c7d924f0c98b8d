(** * Definitions: all that must be read to know what is proved

    A device's randomness is a number of words, each uniform in {0, ..., 2^64 - 1}. A program draws words and ends
    with what it sends. A loss L between two cases: whatever is sent is at most e^L times as likely in one as in the
    other. The rest of this folder proves; nothing outside this file adds to the meaning of a theorem in Claims.v.   *)

From Coq Require Import Reals ZArith QArith Qreals List Bool Arith.
Import ListNotations.
Open Scope R_scope.

(** ** Words *)

(** One whole, in the unit of every threshold (reticent.mechanisms.SCALE). *)
Definition SCALE : Z := (2 ^ 64)%Z.

(** How many words there are, as a natural number; [Qed] hides it, so that nothing ever counts that far. *)
Lemma number_of_words : {n : nat | Z.of_nat n = SCALE}.
Proof. exists (Z.to_nat SCALE). now apply Z2Nat.id. Qed.
Definition words : nat := proj1_sig number_of_words.

Fixpoint sum_below (n : nat) (f : Z -> R) : R :=
  match n with
  | O => 0
  | S k => sum_below k f + f (Z.of_nat k)
  end.

(** The mean of [f] over a word. *)
Definition mean (f : Z -> R) : R := sum_below words f / IZR SCALE.

(** ** Programs *)

Inductive program (A : Type) : Type :=
  | Ret (a : A)                      (* send [a] *)
  | Draw (next : Z -> program A).    (* draw a word and go on *)
Arguments Ret {A}.
Arguments Draw {A}.

Fixpoint bind {A B} (m : program A) (k : A -> program B) : program B :=
  match m with
  | Ret a => k a
  | Draw next => Draw (fun u => bind (next u) k)
  end.

Notation "x <- m ;; k" := (bind m (fun x => k)) (at level 90, m at next level, right associativity).

Definition draw : program Z := Draw (fun u => Ret u).

Fixpoint draws (n : nat) : program (list Z) :=
  match n with
  | O => Ret []
  | S k => u <- draw ;; us <- draws k ;; Ret (u :: us)
  end.

(** One program after another, with words of their own. *)
Fixpoint each {A} (ms : list (program A)) : program (list A) :=
  match ms with
  | [] => Ret []
  | m :: rest => a <- m ;; l <- each rest ;; Ret (a :: l)
  end.

(** What a program sends when its words are these; None if they are too few (for test vectors). *)
Fixpoint run {A} (m : program A) (us : list Z) : option A :=
  match m, us with
  | Ret a, _ => Some a
  | Draw next, u :: rest => run (next u) rest
  | Draw _, [] => None
  end.

(** The mean of a score over what is sent, and the chance that what is sent is in a set. *)
Fixpoint E {A} (m : program A) (f : A -> R) : R :=
  match m with
  | Ret a => f a
  | Draw next => mean (fun u => E (next u) f)
  end.
Definition P {A} (m : program A) (S : A -> bool) : R := E m (fun a => if S a then 1 else 0).

(** For every score that is not negative, its mean in one case is at most e^L times that in the other. The same as
    P X {o} <= e^L P Y {o} for every o: [loss_means] in Draws.v. *)
Definition loss {A} (L : R) (X Y : program A) : Prop :=
  forall f, (forall a, 0 <= f a) -> E X f <= exp L * E Y f.

(** ** A device that remembers its answers (src/reticent/device/answers.py), given the public cohort *)

(** The remembered bit is [word < threshold], the sent bit is that one xor [word < G], with a word per round. *)
Definition seen (G : Z) (remembered : bool) : program bool := u <- draw ;; Ret (xorb remembered (u <? G)%Z).
Definition sent (G : Z) (remembered : list bool) : program (list bool) := each (map (seen G) remembered).

(** One answer bit over all rounds, given the class of each round; [table] is the threshold of each class. *)
Definition column (table : list Z) (G : Z) (classes : list nat) : program (list bool) :=
  memo <- draws (length table) ;;
  sent G (map (fun c => (nth c memo 0 <? nth c table 0)%Z) classes).

Record metric := {
  tables : list (list Z);          (* per answer bit, the threshold of each class *)
  low : Z;                         (* the least threshold; the largest is 2^64 - low *)
  flip : Z;                        (* gamma in units of 2^-64 *)
  classes : nat;                   (* how many answers a device may have to remember *)
  class_of : Z -> Z -> nat         (* alpha, value: the class of a value *)
}.

Definition answers_of_classes (m : metric) (cs : list nat) : program (list (list bool)) :=
  each (map (fun table => column table (flip m) cs) (tables m)).

(** Everything a device ever sends about a metric, for a history of values: one list of rounds per answer bit. *)
Definition answers (m : metric) (history : list Z) : program (list (list bool)) :=
  alpha <- draw ;; answers_of_classes m (map (class_of m alpha) history).

Definition valid_threshold (low T : Z) : Prop := (low <= T <= SCALE - low)%Z.
Definition valid_low (low : Z) : Prop := (0 < low /\ 2 * low <= SCALE)%Z.
Definition valid_flip (G : Z) : Prop := (0 <= G /\ 2 * G <= SCALE)%Z.

Record valid (m : metric) : Prop := {
  valid_m_low : valid_low (low m);
  valid_m_flip : valid_flip (flip m);
  valid_m_tables : forall t, In t (tables m) -> length t = classes m /\ Forall (valid_threshold (low m)) t;
  valid_m_class : forall alpha x, (class_of m alpha x < classes m)%nat
}.

(** ** Means: rounding by alpha, and the thresholds of grid points. Values are whole numbers of a unit fine enough. *)

(** [Grid.cell]: with l <= x < r the neighbouring points, x goes up exactly when alpha (r - l) >= (r - x) 2^64. *)
Fixpoint cell (points : list Z) (alpha x : Z) : nat :=
  match points with
  | l :: ((r :: _) as rest) =>
      if (r <=? x)%Z then S (cell rest alpha x)
      else if ((r - x) * SCALE <=? alpha * (r - l))%Z then 1 else 0
  | _ => 0
  end.

(** The thresholds of [OneBitMean]: low + floor(point (high - low) / top). *)
Definition cell_threshold (low top point : Z) : Z := (low + point * (SCALE - 2 * low) / top)%Z.

Definition mean_metric (points : list Z) (lo G : Z) : metric := {|
  tables := [map (cell_threshold lo (last points 0%Z)) points];
  low := lo;
  flip := G;
  classes := length points;
  class_of := cell points
|}.

(** ** Whom the claims compare *)

(** A renaming of classes turns one sequence into the other; its width is the number of classes in use. *)
Definition same_pattern (cs cs' : list nat) : Prop :=
  exists rename, cs' = map rename cs /\ forall a b, In a cs -> In b cs -> rename a = rename b -> a = b.
Definition width (cs : list nat) : nat := length (nodup Nat.eq_dec cs).

Fixpoint rounds_differing {A} (eq_dec : forall a b : A, {a = b} + {a <> b}) (xs ys : list A) : nat :=
  match xs, ys with
  | x :: r, y :: s => (if eq_dec x y then 0 else 1) + rounds_differing eq_dec r s
  | _, _ => 0
  end.

(** Counters of a group, all in one unit; a vector of values within their ranges and the limit of the group. *)
Record counter := { points : list Z; counter_low : Z; counter_flip : Z }.
Definition top (c : counter) : Z := last (points c) 0%Z.
Definition mean_of (c : counter) : metric := mean_metric (points c) (counter_low c) (counter_flip c).
Definition within_limit (limit : Z) (cs : list counter) (xs : list Z) : Prop :=
  Forall2 (fun c x => (0 <= x <= top c)%Z) cs xs /\ (fold_right Z.add 0 xs <= limit)%Z.
Definition answers_of_group (cs : list counter) (histories : list (list Z)) : program (list (list (list bool))) :=
  each (map (fun ch => answers (mean_of (fst ch)) (snd ch)) (combine cs histories)).

(** All that is seen of a window of sampled answers: everything that was picked without values (round, metrics,
    cohort, id), and the report about the picked round, with fresh words. *)
Definition window {Pick Values Report} (pick : program Pick) (round_of : Pick -> nat)
    (report : Pick -> Values -> program Report) (history : nat -> Values) : program (Pick * Report) :=
  p <- pick ;; r <- report p (history (round_of p)) ;; Ret (p, r).

(** A metric that is not asked sends zeros. A report is made of blocks, each a group of counters that share a limit or a
    metric alone; a mask says which metrics of a block are asked. *)
Definition if_asked (m : metric) (asked : bool) (x : Z) : program (list (list bool)) :=
  if asked then answers m [x] else Ret (map (fun _ => [false]) (tables m)).
Definition asked (mask : list bool) : nat := length (filter (fun a => a) mask).
Record block := { metrics : list metric; allowed : list Z -> Prop }.
Definition block_report (b : block) (mask : list bool) (xs : list Z) : program (list (list (list bool))) :=
  each (map (fun t => if_asked (fst t) (fst (snd t)) (snd (snd t))) (combine (metrics b) (combine mask xs))).
Definition sampled_report (bs : list block) (masks : list (list bool)) (values : list (list Z)) :=
  each (map (fun t => block_report (fst t) (fst (snd t)) (snd (snd t))) (combine bs (combine masks values))).

(** ** What is claimed of a metric, by the figures that [reticent plan check] prints *)

Record figures := {
  round : Q;                    (* any two values, in one round *)
  constant : Q;                 (* any two values that never change, all rounds together *)
  lifetime : Q;                 (* devices whose rounded values repeat in the same pattern, all rounds together *)
  change_per_round : option Q;  (* histories that differ in one round, per round; None: infinite *)
  rounds : nat;
  any_history : option Q        (* any two histories of so many rounds; None: infinite *)
}.

Record claims (m : metric) (f : figures) : Prop := {
  claim_round : forall x y, loss (Q2R (round f)) (answers m [x]) (answers m [y]);
  claim_constant : forall n x y, loss (Q2R (constant f)) (answers m (repeat x n)) (answers m (repeat y n));
  claim_lifetime : forall cs cs', same_pattern cs cs' ->
    (forall c, In c cs -> (c < classes m)%nat) -> (forall c, In c cs' -> (c < classes m)%nat) ->
    loss (Q2R (lifetime f)) (answers_of_classes m cs) (answers_of_classes m cs');
  claim_change : forall F, change_per_round f = Some F -> forall delta xs ys, length xs = length ys ->
    (rounds_differing Z.eq_dec xs ys <= delta)%nat -> loss (INR delta * Q2R F) (answers m xs) (answers m ys);
  claim_any_history : forall F, any_history f = Some F -> forall xs ys,
    length xs = rounds f -> length ys = rounds f -> loss (Q2R F) (answers m xs) (answers m ys)
}.

(** And of a group: every pair of vectors within the limit, in one round, and held through any number of rounds. *)
Record group_claims (cs : list counter) (limit : Z) (one all : Q) : Prop := {
  claim_group_round : forall xs ys, within_limit limit cs xs -> within_limit limit cs ys ->
    loss (Q2R one) (answers_of_group cs (map (fun x => [x]) xs)) (answers_of_group cs (map (fun y => [y]) ys));
  claim_group_constant : forall n xs ys, within_limit limit cs xs -> within_limit limit cs ys ->
    loss (Q2R all) (answers_of_group cs (map (fun x => repeat x n) xs))
                   (answers_of_group cs (map (fun y => repeat y n) ys))
}.

(** And of a window: any two histories of allowed values, for every way to pick a round and at most k metrics. *)
Definition window_claim (bs : list block) (k : nat) (L : Q) : Prop :=
  forall Pick (pick : program Pick) round_of (masks : Pick -> list (list bool)) history history',
  (forall p, Forall2 (fun b mask => length mask = length (metrics b)) bs (masks p) /\
             (list_sum (map asked (masks p)) <= k)%nat) ->
  (forall r, Forall2 allowed bs (history r)) -> (forall r, Forall2 allowed bs (history' r)) ->
  loss (Q2R L) (window pick round_of (fun p => sampled_report bs (masks p)) history)
               (window pick round_of (fun p => sampled_report bs (masks p)) history').
