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

Record state := {
  presence : list Z;                  (* rounds in which the program ran *)
  on_since : option Z;                (* the round since which this program is known to run *)
  pauses : list (Z * option Z);       (* first and last round of each; None: it lasts *)
  silent_through : Z;                 (* after forget: no round up to this one is answered *)
  answered : list (Z * Z);            (* rounds that are answered, and the time at which *)
  totals : list (Z * nat * Z)         (* round, metric, value *)
}.

Section Engine.
  Variable p : plan_times.

  Definition round_at (time : Z) : Z := time / round_seconds p.
  Definition closes (round : Z) : Z := (round + 1) * round_seconds p + grace_seconds p.

  Definition is_paused_in (s : state) (round : Z) : bool :=
    existsb (fun ab => (fst ab <=? round) && match snd ab with None => true | Some last => round <=? last end) (pauses s).
  Definition is_paused (s : state) : bool := existsb (fun ab => match snd ab with None => true | Some _ => false end) (pauses s).

  (** Every call but [Record] enters the rounds since the last one ([note_presence]). *)
  Definition note_presence (s : state) (now : Z) : state :=
    let current := round_at now in
    let first := match on_since s with None => current | Some since => Z.min since current end in
    {| presence := map (fun i => first + Z.of_nat i) (seq 0 (S (Z.to_nat (current - first)))) ++ presence s;
       on_since := Some current; pauses := pauses s; silent_through := silent_through s; answered := answered s;
       totals := totals s |}.

  (** A round is due if it is over, open and not paused, and the last round up to it in which the program ran is, too:
      a spell is answered whole or not at all ([is_due], [due]). *)
  Definition last_presence (s : state) (round : Z) : option Z :=
    fold_right (fun r best => if r <=? round then Some (match best with None => r | Some b => Z.max r b end) else best)
               None (presence s).
  Definition is_answerable (s : state) (now round : Z) : bool :=
    (first_round p <=? round) && (silent_through s <? round) && negb (is_paused_in s round) && (now <? closes round).
  Definition is_due (s : state) (now round : Z) : bool :=
    (round <? round_at now) && is_answerable s now round
    && match last_presence s round with None => false | Some last => is_answerable s now last end
    && negb (existsb (fun known => fst known =? round) (answered s)).
  Definition due (s : state) (now : Z) : list Z :=
    if is_paused s then []
    else filter (is_due s now) (map (fun i => first_round p + Z.of_nat i) (seq 0 (Z.to_nat (round_at now - first_round p)))).

  Definition step (s : state) (c : call) : state :=
    let now := fst c in
    match snd c with
    | Record metric value =>
        {| presence := presence s; on_since := on_since s; pauses := pauses s; silent_through := silent_through s;
           answered := answered s; totals := (round_at now, metric, value) :: totals s |}
    | Answer =>
        let s := note_presence s now in let rounds := due s now in
        {| presence := presence s; on_since := on_since s; pauses := pauses s; silent_through := silent_through s;
           answered := map (fun r => (r, now)) rounds ++ answered s;
           totals := filter (fun t => negb (existsb (Z.eqb (fst (fst t))) rounds)) (totals s) |}
    | Open | Stop =>
        let s := note_presence s now in
        {| presence := presence s; on_since := match snd c with Stop => None | _ => on_since s end; pauses := pauses s;
           silent_through := silent_through s; answered := answered s; totals := totals s |}
    | Pause =>
        let s := note_presence s now in
        {| presence := presence s; on_since := on_since s; pauses := (round_at now, None) :: pauses s;
           silent_through := silent_through s; answered := answered s;
           totals := filter (fun t => negb (fst (fst t) =? round_at now)) (totals s) |}
    | Resume =>
        let s := note_presence s now in
        {| presence := presence s; on_since := on_since s;
           pauses := map (fun ab => match snd ab with None => (fst ab, Some (round_at now)) | _ => ab end) (pauses s);
           silent_through := silent_through s; answered := answered s; totals := totals s |}
    | Forget =>
        let s := note_presence s now in
        {| presence := presence s; on_since := on_since s; pauses := pauses s; silent_through := round_at now;
           answered := answered s; totals := [] |}
    end.

  Definition run_calls (calls : list call) (s : state) : state := fold_left step calls s.

  (** Two programs that run at the same times: the calls are the same but for records, of which each may have its own,
      at times of its own, of any metrics and values. *)
  Definition times_of (calls : list call) : list call :=
    filter (fun c => match snd c with Record _ _ => false | _ => true end) calls.

  Definition same_but_totals (s s' : state) : Prop :=
    presence s = presence s' /\ on_since s = on_since s' /\ pauses s = pauses s' /\
    silent_through s = silent_through s' /\ answered s = answered s'.

  Lemma due_knows_times_only s s' now : same_but_totals s s' -> due s now = due s' now.
  Proof.
    intros [A [B [C [D E]]]]. unfold due, is_paused, is_due, is_answerable, is_paused_in, last_presence.
    now rewrite A, C, D, E.
  Qed.

  Lemma step_keeps_times s s' c : same_but_totals s s' -> same_but_totals (step s c) (step s' c).
  Proof.
    destruct c as [now a]. intros H. assert (N : same_but_totals (note_presence s now) (note_presence s' now)).
    { destruct H as [A [B [C [D E]]]]. unfold note_presence, same_but_totals. simpl. now rewrite A, B, C, D, E. }
    pose proof (due_knows_times_only _ _ now N) as Du. pose proof N as [A [B [C [D E]]]].
    destruct a; unfold step, same_but_totals; cbn -[note_presence due]; rewrite ?A, ?B, ?C, ?D, ?E, ?Du; auto.
  Qed.

  Lemma records_change_totals_only calls s s' :
    same_but_totals s s' -> same_but_totals (run_calls calls s) (run_calls (times_of calls) s').
  Proof.
    unfold run_calls. revert s s'. induction calls as [|[now a] calls IH]; intros s s' H; [exact H|].
    destruct a; cbn [times_of filter snd fold_left]; apply IH; try (now apply step_keeps_times).
    destruct H as [A [B [C [D E]]]]. repeat split; assumption.
  Qed.

  (** Claim (spells): two lives with the same times, whatever each records, answer the same rounds at the same times, and
      have the same presence. *)
  Theorem spells_know_times_only calls calls' s s' :
    times_of calls = times_of calls' -> same_but_totals s s' ->
    same_but_totals (run_calls calls s) (run_calls calls' s').
  Proof.
    intros T H. pose proof (records_change_totals_only calls s s' H) as K.
    assert (R : same_but_totals s' s') by (repeat split; reflexivity).
    pose proof (records_change_totals_only calls' s' s' R) as K'. rewrite T in K.
    destruct K as [A [B [C [D E]]]], K' as [A' [B' [C' [D' E']]]]. repeat split; congruence.
  Qed.
End Engine.
