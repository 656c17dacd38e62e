--------------------------- MODULE Replacement ---------------------------
(* One published object whose levels cannot be changed (KAI's and Kueue's Topology), and who else writes it:        *)
(* toposcope/integrations/framework/publishing/immutable_topology.py and objects.py.                                *)
(*                                                                                                                  *)
(* Assumed: one controller writes at a time (Leadership); the API server checks uid and resourceVersion of a delete *)
(* and of an apply that names them; who uses an object holds it by a finalizer, which changes its resourceVersion.  *)
EXTENDS Integers

CONSTANTS Levels,  \* lists of levels that may be wanted
          Bad,     \* those of them that the API server refuses
          Changes  \* how often others do something

None == [owner |-> "nobody"]

VARIABLES
  wanted,   \* the levels that the ClusterTopology has
  object,   \* what the API server has under the name; `version` is uid and resourceVersion
  next,     \* the next version
  seen,     \* the object as the publisher read it
  asked,    \* the levels that this pass writes
  pc,       \* what the publisher does next: read, decide, try, delete, create
  changes,  \* how often others may still do something
  harmed    \* whether the publisher changed or deleted what was not its own, or what somebody held

vars == <<wanted, object, next, seen, asked, pc, changes, harmed>>

Object(owner, levels) == [owner |-> owner, levels |-> levels, version |-> next, held |-> FALSE, going |-> FALSE]
Exists == object /= None

Init ==
  /\ wanted \in Levels /\ object = None /\ next = 1 /\ seen = None /\ asked = wanted
  /\ pc = "read" /\ changes = Changes /\ harmed = FALSE

(* ---- The publisher: one pass; every step is a request, and others act between two of them ---- *)

\* Once more, too, where the answer is lost.
Read ==
  /\ pc \in {"read", "decide"}
  /\ seen' = object /\ asked' = wanted /\ pc' = "decide"
  /\ UNCHANGED <<wanted, object, next, changes, harmed>>

Decide ==
  /\ pc = "decide"
  /\ pc' = IF seen = None THEN "create"
           ELSE IF seen.owner /= "ours" \/ seen.going \/ seen.levels = asked \/ seen.held THEN "read"
           ELSE "try"
  /\ UNCHANGED <<wanted, object, next, seen, asked, changes, harmed>>

\* A dry run under another name: levels that the API server refuses must not cost the old object.
Try ==
  /\ pc = "try"
  /\ pc' = IF asked \in Bad THEN "read" ELSE "delete"
  /\ UNCHANGED <<wanted, object, next, seen, asked, changes, harmed>>

Delete ==
  /\ pc = "delete"
  /\ IF Exists /\ object.version = seen.version
     THEN /\ object' = None
          /\ harmed' = (harmed \/ object.owner /= "ours" \/ object.held)
          /\ pc' = "create"
     ELSE /\ UNCHANGED <<object, harmed>>
          /\ pc' = IF Exists THEN "read" ELSE "create"
  /\ UNCHANGED <<wanted, next, seen, asked, changes>>

\* An apply that an existing object refuses, because it does not have the resourceVersion that it names.
Create ==
  /\ pc = "create"
  /\ IF ~Exists /\ asked \notin Bad
     THEN object' = Object("ours", asked) /\ next' = next + 1
     ELSE UNCHANGED <<object, next>>
  /\ pc' = "read"
  /\ UNCHANGED <<wanted, seen, asked, changes, harmed>>

\* The process ends at any moment; another begins.
Crash ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ pc' = "read"
  /\ UNCHANGED <<wanted, object, next, seen, asked, harmed>>

(* ---- Others ---- *)

Others ==
  /\ changes > 0 /\ changes' = changes - 1
  /\ \/ wanted' \in Levels \ {wanted} /\ UNCHANGED <<object, next>>
     \* A request of a process that has ended may still be carried out.
     \/ ~Exists /\ \E owner \in {"ours", "theirs"}, levels \in Levels \ Bad : object' = Object(owner, levels)
        /\ next' = next + 1 /\ UNCHANGED wanted
     \/ /\ Exists /\ next' = next + 1 /\ UNCHANGED wanted
        /\ \/ ~object.going /\ object' = [object EXCEPT !.held = ~@, !.version = next]
           \/ \E levels \in Levels \ Bad : object' = [object EXCEPT !.levels = levels, !.version = next]
           \/ object' = None /\ ~object.held
           \/ object.held /\ object' = [object EXCEPT !.going = TRUE, !.version = next]
  /\ UNCHANGED <<seen, asked, pc, harmed>>

\* Who holds an object that is being deleted lets go of it.
LetGo ==
  /\ Exists /\ object.held
  /\ object' = IF object.going THEN None ELSE [object EXCEPT !.held = FALSE, !.version = next]
  /\ next' = next + 1
  /\ UNCHANGED <<wanted, seen, asked, pc, changes, harmed>>

Pass == Read \/ Decide \/ Try \/ Delete \/ Create
Next == Pass \/ Crash \/ Others \/ LetGo
Spec == Init /\ [][Next]_vars /\ WF_vars(Pass) /\ WF_vars(LetGo)

(* ---- What must hold ---- *)

NoHarm == ~harmed

\* What is deleted to be replaced is made again by the very next request: no other step of the publisher lies between.
NoGap == [][Exists /\ object'= None /\ Delete => pc' = "create" /\ asked \notin Bad]_vars

\* The object gets the levels that are wanted, unless it is somebody else's, or the API server refuses them.
InSync == Exists /\ (object.owner = "theirs" \/ object.levels = wanted)
Published == <>[](InSync \/ wanted \in Bad)
=============================================================================
