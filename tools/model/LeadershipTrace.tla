-------------------------- MODULE LeadershipTrace --------------------------
(* Whether what the election of toposcope/controller did is something that Leadership allows. The module Trace, which *)
(* a program writes, has the steps of one run after another, each with what was to be seen after it.                   *)
EXTENDS Leadership, Sequences, Trace

VARIABLE step

All(value) == [c \in Contenders |-> value]

\* Init, as a step.
Start ==
  /\ holder' = Absent /\ known' = All(Unread) /\ current' = All(FALSE) /\ same' = All(FALSE) /\ certain' = All(FALSE)
  /\ age' = All(0) /\ from' = All(0) /\ until' = All(0) /\ call' = All(Idle) /\ late' = {} /\ writes' = {}
  /\ acted' = All(FALSE) /\ faults' = Faults

Do(event) ==
  LET c == event.who IN
  CASE event.action = "Start" -> Start
    [] event.action = "Look" -> Look(c)
    [] event.action = "Looked" -> Looked(c)
    [] event.action = "Claim" -> Claim(c)
    [] event.action = "TakeClaim" -> TakeClaim(c)
    [] event.action = "TakeLateClaim" -> \E one \in late : one.by = c /\ TakeLateClaim(one)
    [] event.action = "Claimed" -> Claimed(c)
    [] event.action = "Doubt" -> Doubt(c)
    [] event.action = "Crash" -> Crash(c)
    [] event.action = "Release" -> Release(c)
    [] event.action = "Delete" -> Delete
    [] event.action = "Tick" -> Tick
    [] event.action = "Pass" -> Pass(event.time)
    [] event.action = "Write" -> Write(c)
    [] event.action = "TakeWrite" -> TakeWrite([by |-> c, since |-> event.time])

\* Of the moment between two other steps nothing was seen, and of who has resigned nothing is said.
Seen(event) == event.action = "Pass" \/
  /\ holder = event.holder
  /\ \A c \in Contenders \ event.over : MayWrite(c) = (c \in event.leading) /\ MustLook(c) = (c \in event.looking)

TraceInit == Init /\ step = 0
TraceNext == step < Len(Steps) /\ step' = step + 1 /\ Do(Steps[step + 1]) /\ Seen(Steps[step])'
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, step>>

\* Violated by a trace that the model allows to its end; of any other, the depth of the search tells the first step that
\* it does not allow.
NotAllowed == step < Len(Steps)
=============================================================================
