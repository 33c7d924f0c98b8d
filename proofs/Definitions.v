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

(** For every score that is not negative, its mean in one case is at most e^L times that in the other. In particular
    P X S <= e^L P Y S for every set S of things that may be sent: [loss_sets] in Draws.v. *)
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
  classes : nat                    (* how many answers a device may have to remember *)
}.

Definition answers_of_classes (m : metric) (cs : list nat) : program (list (list bool)) :=
  each (map (fun table => column table (flip m) cs) (tables m)).

(** Everything a device ever sends about a metric, for a history of values: one list of rounds per answer bit. What
    makes a class of a value is secret and kept: an alpha, or the darts of a split of time. *)
Definition answers {S V} (secret : program S) (class_of : S -> V -> nat) (m : metric) (history : list V)
    : program (list (list bool)) :=
  s <- secret ;; answers_of_classes m (map (class_of s) history).

Definition valid_threshold (low T : Z) : Prop := (low <= T <= SCALE - low)%Z.
Definition valid_low (low : Z) : Prop := (0 < low /\ 2 * low <= SCALE)%Z.
Definition valid_flip (G : Z) : Prop := (0 <= G /\ 2 * G <= SCALE)%Z.

Record valid (m : metric) : Prop := {
  valid_m_low : valid_low (low m);
  valid_m_flip : valid_flip (flip m);
  valid_m_tables : forall t, In t (tables m) -> length t = classes m /\ Forall (valid_threshold (low m)) t
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
  tables := [map (cell_threshold lo (last points 0%Z)) points]; low := lo; flip := G; classes := length points
|}.

(** Counters of a group, all in one unit. *)
Record counter := { points : list Z; counter_low : Z; counter_flip : Z }.
Definition top (c : counter) : Z := last (points c) 0%Z.
Definition mean_of (c : counter) : metric := mean_metric (points c) (counter_low c) (counter_flip c).

(** What is sent about a counter that holds one value through n rounds; the secret is one word, alpha. *)
Definition mean_held (n : nat) (c : counter) (x : Z) : program (list (list bool)) :=
  answers draw (cell (points c)) (mean_of c) (repeat x n).

(** ** Subset selection: one label of k, answered by a set of labels that is shifted *)

Fixpoint insert_by (words : list Z) (i : nat) (sorted : list nat) : list nat :=
  match sorted with
  | [] => [i]
  | j :: rest => if (nth i words 0 <=? nth j words 0)%Z then i :: sorted else j :: insert_by words i rest
  end.
Definition without (l : list nat) (k : nat) : list nat := filter (fun i => negb (existsb (Nat.eqb i) l)) (seq 0 k).

(** The labels with the [size] smallest words, in order. *)
Definition base_set (size : nat) (words : list Z) : list nat :=
  let k := length words in
  without (skipn size (fold_right (insert_by words) [] (seq 0 k))) k.

(** The shift that a word u gives to label v: a words for each label of the base set, b for each other one. *)
Definition back (k v x : nat) : nat := (v + k - x) mod k.
Definition shift (k : nat) (a b : Z) (base : list nat) (v : nat) (u : Z) : nat :=
  let inside := (Z.of_nat (length base) * a)%Z in
  if (u <? inside)%Z then back k v (nth (Z.to_nat (u / a)) base O)
  else if (u <? inside + Z.of_nat (k - length base) * b)%Z
  then back k v (nth (Z.to_nat ((u - inside) / b)) (without base k) O)
  else O.

(** One bit per label: whether it is in the shifted base set. *)
Definition shifted (k : nat) (base : list nat) (s : nat) : list (list bool) :=
  map (fun label => [existsb (fun y => Nat.eqb ((y + s) mod k) label) base]) (seq 0 k).
Definition subset_answer (k size : nat) (a b : Z) (v : nat) : program (list (list bool)) :=
  words <- draws k ;; let base := base_set size words in u <- draw ;; Ret (shifted k base (shift k a b base v u)).

(** ** Split of time: one label for a vector of amounts *)

(** The first label whose sum of amounts, up to it, is beyond the moment u / 2^64 of the whole; one more is "none". *)
Fixpoint label_from (so_far whole u : Z) (amounts : list Z) : nat :=
  match amounts with
  | [] => O
  | a :: rest => if (u * whole <? (so_far + a) * SCALE)%Z then O else S (label_from (so_far + a) whole u rest)
  end.
Definition total_of (amounts : list Z) : Z := fold_right Z.add 0%Z amounts.
Definition label_at (limit u : Z) (amounts : list Z) : nat := label_from 0 (Z.max limit (total_of amounts)) u amounts.

(** Remembered: the label of the first dart that hits its bar; the last bar is what the amounts leave of the whole. *)
Fixpoint label_by_darts (limit : Z) (darts amounts : list Z) : nat :=
  match darts with
  | [] => length amounts
  | u :: rest =>
      let bars := amounts ++ [limit - total_of amounts]%Z in
      let place := (u * Z.of_nat (length bars))%Z in
      let j := Z.to_nat (place / SCALE) in
      if ((place mod SCALE) * limit <? nth j bars 0 * SCALE)%Z then j else label_by_darts limit rest amounts
  end.

(** ** Whom the claims compare *)

(** Two programs of one metric: what is sent in one case and in the other. *)
Definition comparison := program (list (list bool)) -> program (list (list bool)) -> Prop.
Definition bounds (L : R) (compared : comparison) : Prop := forall X Y, compared X Y -> loss L X Y.

(** Two histories of values of any kind, whatever the secret makes of them. *)
Definition of_values (related : forall V, list V -> list V -> Prop) (m : metric) : comparison := fun X Y =>
  exists S V (secret : program S) (class_of : S -> V -> nat) xs ys,
    (forall s v, (class_of s v < classes m)%nat) /\ related V xs ys /\
    X = answers secret class_of m xs /\ Y = answers secret class_of m ys.

Definition held_for (n : nat) V (xs ys : list V) : Prop := exists x y, xs = repeat x n /\ ys = repeat y n.
Definition one_round := held_for 1.
Definition held V (xs ys : list V) : Prop := exists n, held_for n V xs ys.
Definition any_two (R : nat) V (xs ys : list V) : Prop := length xs = R /\ length ys = R.
Inductive differ_in {V} : nat -> list V -> list V -> Prop :=
  | differ_in_none n : differ_in n [] []
  | differ_not n x xs ys : differ_in n xs ys -> differ_in n (x :: xs) (x :: ys)
  | differ_here n x y xs ys : differ_in n xs ys -> differ_in (S n) (x :: xs) (y :: ys).

(** A renaming of classes turns one sequence into the other; its width is the number of classes in use. *)
Definition same_pattern (cs cs' : list nat) : Prop :=
  exists rename, cs' = map rename cs /\ forall a b, In a cs -> In b cs -> rename a = rename b -> a = b.
Definition width (cs : list nat) : nat := length (nodup Nat.eq_dec cs).
Definition within (m : metric) (cs : list nat) : Prop := forall c, In c cs -> (c < classes m)%nat.
Definition of_patterns (m : metric) : comparison := fun X Y =>
  exists cs cs', same_pattern cs cs' /\ within m cs /\ within m cs' /\
    X = answers_of_classes m cs /\ Y = answers_of_classes m cs'.

(** Two values of a choice that is answered by subset selection. *)
Definition of_choices (k size : nat) (a b : Z) : comparison := fun X Y =>
  exists S V (secret : program S) (label_of : S -> V -> nat) x y,
    (forall s v, (label_of s v < k)%nat) /\
    X = (s <- secret ;; subset_answer k size a b (label_of s x)) /\
    Y = (s <- secret ;; subset_answer k size a b (label_of s y)).

(** Of a metric that has other integers for each cohort. *)
Definition any_of {A} (c : A -> comparison) (cohorts : list A) : comparison :=
  fun X Y => exists m, In m cohorts /\ c m X Y.

(** ** Plans: which metrics are asked is picked without values, and public *)

Record row := { is_asked : bool; sends_x : program (list (list bool)); sends_y : program (list (list bool)) }.
Definition sent_if_asked (sends : row -> program (list (list bool))) (r : row) : program (list (list bool)) :=
  if is_asked r then sends r else Ret [].
Definition asked (rows : list row) : nat := length (filter is_asked rows).

(** A block of a plan, by what may be compared: a metric alone, or counters that hold vectors within a limit. *)
Definition block := list row -> Prop.
Definition alone (c : comparison) : block := fun rows => exists r, rows = [r] /\ c (sends_x r) (sends_y r).

Record member := { counts : counter; member_asked : bool; value_x : Z; value_y : Z }.
Definition within_limit (limit : Z) (ms : list member) : Prop :=
  (forall t, In t ms -> (0 <= value_x t <= top (counts t) /\ 0 <= value_y t <= top (counts t))%Z) /\
  (total_of (map value_x ms) <= limit /\ total_of (map value_y ms) <= limit)%Z.
Definition row_of (n : nat) (t : member) : row := {|
  is_asked := member_asked t; sends_x := mean_held n (counts t) (value_x t); sends_y := mean_held n (counts t) (value_y t)
|}.
Definition group (cs : list counter) (limit : Z) (n : nat) : block := fun rows =>
  exists ms, map counts ms = cs /\ within_limit limit ms /\ rows = map (row_of n) ms.

(** All that is seen of a report: everything that was picked without values (round, metrics, cohort, id), and what is
    sent then about at most k metrics. A window of sampled answers is one such report; so are all the remembered
    answers of a device whose secret picks metrics once; a plan that asks all its metrics is the case that k is all. *)
Definition report {Pick} (pick : program Pick) (rows : Pick -> list (list row)) (sends : row -> program (list (list bool)))
    : program (Pick * list (list (list (list bool)))) :=
  p <- pick ;; r <- each (map (fun rs => each (map (sent_if_asked sends) rs)) (rows p)) ;; Ret (p, r).
Definition report_claim (bs : list block) (k : nat) (L : R) : Prop :=
  forall Pick (pick : program Pick) (rows : Pick -> list (list row)),
  (forall p, Forall2 (fun b rs => b rs) bs (rows p) /\ (list_sum (map asked (rows p)) <= k)%nat) ->
  loss L (report pick rows sends_x) (report pick rows sends_y).

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
  claim_round : bounds (Q2R (round f)) (of_values one_round m);
  claim_constant : bounds (Q2R (constant f)) (of_values held m);
  claim_lifetime : bounds (Q2R (lifetime f)) (of_patterns m);
  claim_change : forall F, change_per_round f = Some F ->
    forall delta, bounds (INR delta * Q2R F) (of_values (fun V => differ_in delta) m);
  claim_any_history : forall F, any_history f = Some F -> bounds (Q2R F) (of_values (any_two (rounds f)) m)
}.
