(** * Which rounds are answered, and when, knows times only

    A model of what an engine does with its state file (src/reticent/device/engine.py and rounds.py): what a call enters,
    which rounds are due, and what becomes of totals. Values enter by [Record] and leave through reports alone. *)

From Coq Require Import ZArith List Lia Bool.
Import ListNotations.
Open Scope Z_scope.

(** Calls of a program, each at a time. [Record] adds to a total; the others enter that the program ran. *)
Inductive act := Open | Record (metric : nat) (value : Z) | Answer | Stop | Pause | Resume | Forget.
Definition call : Type := Z * act.

Record plan_times := { round_seconds : Z; grace_seconds : Z; first_round : Z }.

(** What a state file knows of times, and of values. *)
Record times := {
  presence : list Z;                  (* rounds in which the program ran *)
  on_since : option Z;                (* the round since which this program is known to run *)
  pauses : list (Z * option Z);       (* first and last round of each; None: it lasts *)
  silent_through : Z;                 (* after forget: no round up to this one is answered *)
  answered : list (Z * Z)             (* rounds that are answered, and the time at which *)
}.
Definition totals : Type := list (Z * nat * Z).  (* round, metric, value *)
Definition state : Type := times * totals.

Definition with_presence (s : times) presence on_since : times :=
  {| presence := presence; on_since := on_since; pauses := pauses s; silent_through := silent_through s; answered := answered s |}.
Definition with_pauses (s : times) pauses silent : times :=
  {| presence := presence s; on_since := on_since s; pauses := pauses; silent_through := silent; answered := answered s |}.
Definition with_answers (s : times) rounds : times :=
  {| presence := presence s; on_since := on_since s; pauses := pauses s; silent_through := silent_through s;
     answered := rounds ++ answered s |}.

Section Engine.
  Variable p : plan_times.

  Definition round_at (time : Z) : Z := time / round_seconds p.
  Definition closes (round : Z) : Z := (round + 1) * round_seconds p + grace_seconds p.

  Definition is_paused_in (s : times) (round : Z) : bool :=
    existsb (fun ab => (fst ab <=? round) && match snd ab with None => true | Some last => round <=? last end) (pauses s).
  Definition is_paused (s : times) : bool := existsb (fun ab => match snd ab with None => true | Some _ => false end) (pauses s).

  (** Every call but [Record] enters the rounds since the last one ([note_presence]). *)
  Definition note_presence (s : times) (now : Z) : times :=
    let current := round_at now in
    let first := match on_since s with None => current | Some since => Z.min since current end in
    with_presence s (map (fun i => first + Z.of_nat i) (seq 0 (S (Z.to_nat (current - first)))) ++ presence s) (Some current).

  (** A round is due if it is over, open and not paused, and the last round up to it in which the program ran is, too:
      a spell is answered whole or not at all ([is_due], [due]). *)
  Definition last_presence (s : times) (round : Z) : option Z :=
    fold_right (fun r best => if r <=? round then Some (match best with None => r | Some b => Z.max r b end) else best)
               None (presence s).
  Definition is_answerable (s : times) (now round : Z) : bool :=
    (first_round p <=? round) && (silent_through s <? round) && negb (is_paused_in s round) && (now <? closes round).
  Definition is_due (s : times) (now round : Z) : bool :=
    (round <? round_at now) && is_answerable s now round
    && match last_presence s round with None => false | Some last => is_answerable s now last end
    && negb (existsb (fun known => fst known =? round) (answered s)).
  Definition due (s : times) (now : Z) : list Z :=
    if is_paused s then []
    else filter (is_due s now) (map (fun i => first_round p + Z.of_nat i) (seq 0 (Z.to_nat (round_at now - first_round p)))).

  Definition erased (erases : Z -> bool) (values : totals) : totals := filter (fun t => negb (erases (fst (fst t)))) values.

  Definition step (s : state) (c : call) : state :=
    let now := fst c in
    let seen := note_presence (fst s) now in
    match snd c with
    | Record metric value => (fst s, (round_at now, metric, value) :: snd s)
    | Open => (seen, snd s)
    | Stop => (with_presence seen (presence seen) None, snd s)
    | Answer => let rounds := due seen now in
        (with_answers seen (map (fun r => (r, now)) rounds), erased (fun r => existsb (Z.eqb r) rounds) (snd s))
    | Pause => (with_pauses seen ((round_at now, None) :: pauses seen) (silent_through seen), erased (Z.eqb (round_at now)) (snd s))
    | Resume => let ends ab := match snd ab with None => (fst ab, Some (round_at now)) | _ => ab end in
        (with_pauses seen (map ends (pauses seen)) (silent_through seen), snd s)
    | Forget => (with_pauses seen (pauses seen) (round_at now), [])
    end.

  (** Two lives with the same times: their calls are the same but for records, of which each may have its own, at times of
      its own, of any metrics and values. *)
  Definition times_of (calls : list call) : list call :=
    filter (fun c => match snd c with Record _ _ => false | _ => true end) calls.

  Lemma records_change_totals_only calls s values :
    fst (fold_left step calls s) = fst (fold_left step (times_of calls) (fst s, values)).
  Proof.
    revert s values. induction calls as [|[now a] calls IH]; intros s values; [reflexivity|].
    destruct a; cbn [times_of filter snd fold_left];
      [exact (IH _ (snd (step (fst s, values) (now, Open)))) | exact (IH _ values)
      | exact (IH _ (snd (step (fst s, values) (now, Answer)))) | exact (IH _ (snd (step (fst s, values) (now, Stop))))
      | exact (IH _ (snd (step (fst s, values) (now, Pause)))) | exact (IH _ (snd (step (fst s, values) (now, Resume))))
      | exact (IH _ (snd (step (fst s, values) (now, Forget))))].
  Qed.

  (** Claim (spells): then they answer the same rounds at the same times, whatever each records. *)
  Theorem spells_know_times_only calls calls' s s' :
    times_of calls = times_of calls' -> fst s = fst s' -> fst (fold_left step calls s) = fst (fold_left step calls' s').
  Proof.
    intros T H. rewrite (records_change_totals_only calls s []), (records_change_totals_only calls' s' []). now rewrite T, H.
  Qed.
End Engine.
