-------------------------- MODULE ReplacementTrace --------------------------
(* Whether what simulated controllers did to Kueue's Topologies is something that Replacement allows. The module Trace, *)
(* which a program writes, has the steps of one Topology after another, each with what was to be seen after it.         *)
EXTENDS Replacement, Sequences, Trace

VARIABLE step

\* The first pass, at any moment of Spec.
Start(event) ==
  /\ wanted' = event.wanted /\ next' = 1 /\ seen' = None /\ asked' = wanted' /\ pc' = "read" /\ changes' = Changes
  /\ object' = IF event.owner = "nobody" THEN None
               ELSE [owner |-> event.owner, levels |-> event.levels, version |-> 0, held |-> FALSE, going |-> FALSE]
  /\ harmed' = FALSE

\* A pass that comes to its end in good order has nothing left to do, or waits; what it deleted it has made again.
End ==
  /\ pc \in {"read", "decide"} /\ pc' = "read"
  /\ UNCHANGED <<wanted, object, next, seen, asked, changes, harmed>>

Do(event) ==
  CASE event.action = "Start" -> Start(event)
    [] event.action = "Read" -> Read
    [] event.action = "Decide" -> Decide
    [] event.action = "Try" -> Try
    [] event.action = "Delete" -> Delete
    [] event.action = "Create" -> Create
    [] event.action = "Change" -> FALSE  \* there is none where levels cannot be changed
    [] event.action = "End" -> End
    [] event.action = "Crash" -> Crash
    [] event.action = "Others" -> Others

Seen(event) ==
  /\ wanted = event.wanted
  /\ IF Exists THEN object.owner = event.owner /\ object.levels = event.levels ELSE event.owner = "nobody"

TraceInit == Init /\ step = 0
TraceNext == step < Len(Steps) /\ step' = step + 1 /\ Do(Steps[step + 1]) /\ Seen(Steps[step])'
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, step>>

\* As in LeadershipTrace.
NotAllowed == step < Len(Steps)
=============================================================================
