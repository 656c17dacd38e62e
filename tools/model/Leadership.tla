---------------------------- MODULE Leadership ----------------------------
(* Two controllers, one Lease, one writer: toposcope/controller/election.py and fence.py.                          *)
(*                                                                                                                   *)
(* A contender that leads counts from the moment it SENT a claim that was stored, and may write for Renew ticks. All *)
(* others count from the moment they RECEIVED the last change, and leave the Lease alone for Lease ticks.            *)
(*                                                                                                                   *)
(* Assumed: clocks run equally fast and never stop (CLOCK_BOOTTIME); each process has an identity of its own; the    *)
(* API server compares resourceVersions and carries a write out within Lease - Renew ticks of its being sent, or     *)
(* never (clients time out before); a Lease that another contender wrote has the same duration. A claim may be       *)
(* carried out however late. Restoring an older etcd copy is simulated, not modelled.                                *)
EXTENDS Integers, TLC

CONSTANTS Contenders, Lease, Renew, Faults

Absent == "absent"      \* there is no Lease
Released == "released"  \* its holder gave it back
Former == "former"      \* its holder is a process that has ended
Unread == "unread"      \* a contender has not read it yet
Request == Lease - Renew

VARIABLES
  holder,   \* who holds the Lease at the API server
  known,    \* who held it, as each contender knows
  current,  \* whether the Lease at the server still is the one that the contender knows (its resourceVersion)
  same,     \* whether it is at least the same object (its uid)
  certain,  \* FALSE after a request whose outcome is not known
  age,      \* ticks since the contender noticed a change of the Lease
  from,     \* ticks left until a contender that made the Lease may write
  until,    \* ticks left in which it may write
  call,     \* what each contender waits for: an answer about the Lease
  late,     \* claims whose sender no longer waits
  writes,   \* writes of published objects on their way
  acted,    \* whether each contender had a turn in this tick
  faults    \* how many more things may fail: lost answers, crashes, releases, deletions of the Lease

vars == <<holder, known, current, same, certain, age, from, until, call, late, writes, acted, faults>>
local == <<certain, age, from, until>>

Idle == [kind |-> "idle"]
Wants == [kind |-> "wants"]
Calm == faults = 0
MayWrite(c) == from[c] = 0 /\ until[c] > 0
Min(a, b) == IF a < b THEN a ELSE b
Less(a, b) == IF a > b THEN a - b ELSE 0

Init ==
  /\ holder = Absent
  /\ known = [c \in Contenders |-> Unread]
  /\ current = [c \in Contenders |-> FALSE]
  /\ same = [c \in Contenders |-> FALSE]
  /\ certain = [c \in Contenders |-> FALSE]
  /\ age = [c \in Contenders |-> 0]
  /\ from = [c \in Contenders |-> 0]
  /\ until = [c \in Contenders |-> 0]
  /\ call = [c \in Contenders |-> Idle]
  /\ late = {}
  /\ writes = {}
  /\ acted = [c \in Contenders |-> FALSE]
  /\ faults = Faults

(* ---- The API server ---- *)

\* The Lease becomes `new`; `by` alone knows its new version, if the answer reaches it. `another` object: a new uid.
Store(new, by, another) ==
  /\ holder' = new
  /\ current' = [c \in Contenders |-> FALSE]
  /\ same' = [c \in Contenders |-> same[c] /\ ~another]
  /\ call' = [c \in Contenders |->
       IF c = by THEN [call[c] EXCEPT !.kind = "stored", !.current = TRUE, !.same = TRUE]
       ELSE IF call[c].kind \in {"idle", "wants", "refused"} THEN call[c]
       ELSE [call[c] EXCEPT !.current = FALSE, !.same = @ /\ ~another]]
  /\ late' = {[one EXCEPT !.current = FALSE] : one \in late}

Fits(claim) == IF claim.create THEN holder = Absent ELSE claim.current

TakeClaim(c) ==
  /\ call[c].kind = "claim"
  /\ IF Fits(call[c])
     THEN Store(c, c, call[c].create)
     ELSE call' = [call EXCEPT ![c] = [kind |-> "refused"]] /\ UNCHANGED <<holder, current, same, late>>
  /\ UNCHANGED <<known, local, writes, acted, faults>>

TakeLateClaim(one) ==
  /\ one \in late
  /\ IF Fits(one)
     THEN /\ holder' = one.by
          /\ current' = [c \in Contenders |-> FALSE]
          /\ same' = [c \in Contenders |-> same[c] /\ ~one.create]
          /\ call' = [c \in Contenders |->
               IF call[c].kind \in {"idle", "wants", "refused"} THEN call[c]
               ELSE [call[c] EXCEPT !.current = FALSE, !.same = @ /\ ~one.create]]
     ELSE UNCHANGED <<holder, current, same, call>>
  /\ late' = {[other EXCEPT !.current = FALSE] : other \in late \ {one}}
  /\ UNCHANGED <<known, local, writes, acted, faults>>

TakeWrite(write) ==
  /\ write \in writes
  /\ writes' = writes \ {write}
  /\ UNCHANGED <<holder, known, current, same, local, call, late, acted, faults>>

\* Somebody deletes the Lease.
Delete ==
  /\ faults > 0 /\ holder /= Absent
  /\ faults' = faults - 1
  /\ Store(Absent, Former, TRUE)
  /\ UNCHANGED <<known, local, writes, acted>>

(* ---- A contender ---- *)

MustLook(c) == ~certain[c] \/ known[c] /= c

\* The server reads the Lease; the answer comes later. It says what holds at this moment.
Look(c) ==
  /\ call[c] = Idle /\ MustLook(c) /\ ~acted[c]
  /\ call' = [call EXCEPT ![c] = [kind |-> "look", holder |-> holder, current |-> TRUE, same |-> TRUE,
                                  changed |-> ~current[c], other |-> ~same[c]]]
  /\ UNCHANGED <<holder, known, current, same, local, late, writes, acted, faults>>

\* Election.looked
Looked(c) ==
  LET seen == call[c] IN
  /\ seen.kind = "look"
  /\ known' = [known EXCEPT ![c] = seen.holder]
  /\ current' = [current EXCEPT ![c] = seen.current]
  /\ same' = [same EXCEPT ![c] = seen.same]
  /\ certain' = [certain EXCEPT ![c] = TRUE]
  /\ age' = [age EXCEPT ![c] = IF seen.changed THEN 0 ELSE @]
  /\ until' = [until EXCEPT ![c] = IF seen.holder \in {Absent, Released, c} THEN @ ELSE 0]
  /\ from' = [from EXCEPT ![c] =
       IF seen.holder = c /\ seen.other THEN Lease + 1 ELSE @]
  /\ LET wants == seen.holder \in {Absent, Released, c} \/ MayWrite(c) \/ (~seen.changed /\ age[c] > Lease) IN
     /\ call' = [call EXCEPT ![c] = IF wants THEN Wants ELSE Idle]
     /\ acted' = [acted EXCEPT ![c] = Calm /\ ~wants]
  /\ UNCHANGED <<holder, late, writes, faults>>

Claim(c) ==
  /\ call[c] = Wants \/ (call[c] = Idle /\ ~acted[c] /\ ~MustLook(c))
  /\ call' = [call EXCEPT ![c] =
       [kind |-> "claim", create |-> known[c] = Absent, current |-> current[c], same |-> same[c], since |-> 0]]
  /\ UNCHANGED <<holder, known, current, same, certain, age, from, until, late, writes, acted, faults>>

\* Election.claimed
Claimed(c) ==
  LET stored == call[c] IN
  /\ stored.kind = "stored"
  /\ known' = [known EXCEPT ![c] = c]
  /\ current' = [current EXCEPT ![c] = stored.current]
  /\ same' = [same EXCEPT ![c] = stored.same]
  /\ from' = [from EXCEPT ![c] = IF stored.create THEN Lease + 1 ELSE @]
  /\ until' = [until EXCEPT ![c] = Renew - stored.since]
  /\ call' = [call EXCEPT ![c] = Idle]
  /\ acted' = [acted EXCEPT ![c] = Calm]
  /\ UNCHANGED <<holder, certain, age, late, writes, faults>>

\* Election.doubt: a conflict, an answer that is lost, a request that may still be carried out.
Doubt(c) ==
  /\ IF call[c].kind = "refused" THEN UNCHANGED faults
     ELSE faults > 0 /\ call[c] /= Idle /\ faults' = faults - 1
  /\ certain' = [certain EXCEPT ![c] = FALSE]
  /\ \/ late' = late
     \/ /\ call[c].kind = "claim"
        /\ late' = {one \in late : one.by /= c} \cup
                   {[by |-> c, create |-> call[c].create, current |-> call[c].current]}
  /\ call' = [call EXCEPT ![c] = Idle]
  /\ acted' = [acted EXCEPT ![c] = Calm]
  /\ UNCHANGED <<holder, known, current, same, age, from, until, writes>>

\* FencedClient sends a write.
Write(c) ==
  /\ MayWrite(c)
  /\ writes' = writes \cup {[by |-> c, since |-> 0]}
  /\ UNCHANGED <<holder, known, current, same, local, call, late, acted, faults>>

Forgotten(c) ==
  /\ known' = [known EXCEPT ![c] = Unread]
  /\ same' = [same EXCEPT ![c] = FALSE]
  /\ certain' = [certain EXCEPT ![c] = FALSE]
  /\ age' = [age EXCEPT ![c] = 0]
  /\ from' = [from EXCEPT ![c] = 0]
  /\ until' = [until EXCEPT ![c] = 0]
  /\ acted' = [acted EXCEPT ![c] = FALSE]

\* It ends, and starts again as another process; what it sent is still on its way.
Crash(c) ==
  /\ faults > 0 /\ faults' = faults - 1
  /\ Forgotten(c)
  /\ current' = [current EXCEPT ![c] = FALSE]
  /\ holder' = IF holder = c THEN Former ELSE holder
  /\ call' = [call EXCEPT ![c] = Idle]
  /\ late' = {IF one.by = c THEN [one EXCEPT !.by = Former] ELSE one : one \in late} \cup
             (IF call[c].kind = "claim"
              THEN {[by |-> Former, create |-> call[c].create, current |-> call[c].current]} ELSE {})
  /\ writes' = {IF one.by = c THEN [one EXCEPT !.by = Former] ELSE one : one \in writes}

\* It ends in order: when all it wrote is done it gives the Lease back, if it is certain to hold it.
Release(c) ==
  /\ faults > 0 /\ faults' = faults - 1
  /\ call[c] = Idle /\ known[c] = c /\ from[c] = 0 /\ current[c] /\ \A one \in writes : one.by /= c
  /\ Forgotten(c)
  /\ holder' = Released
  /\ current' = [d \in Contenders |-> FALSE]
  /\ call' = [d \in Contenders |-> IF call[d].kind \in {"idle", "wants", "refused"} THEN call[d] ELSE [call[d] EXCEPT !.current = FALSE]]
  /\ late' = {[one EXCEPT !.current = FALSE] : one \in {o \in late : o.by /= c}}
  /\ UNCHANGED writes

Pass(time) ==
  /\ age' = [c \in Contenders |->
       IF known[c] \in {Absent, Released, Unread, c} THEN 0 ELSE Min(age[c] + time, Lease + 1)]
  /\ from' = [c \in Contenders |-> Less(from[c], time)]
  /\ until' = [c \in Contenders |-> Less(until[c], time)]
  /\ call' = [c \in Contenders |->
       IF call[c].kind \in {"claim", "stored"} THEN [call[c] EXCEPT !.since = Min(@ + time, Renew)] ELSE call[c]]
  /\ writes' = {[one EXCEPT !.since = @ + time] : one \in {o \in writes : o.since + time <= Request}}
  /\ acted' = [c \in Contenders |-> FALSE]
  /\ UNCHANGED <<holder, known, current, same, certain, late, faults>>

Tick == (faults = 0 => \A c \in Contenders : acted[c]) /\ Pass(1)

\* From now on nothing fails.
Settle == ~Calm /\ faults' = 0 /\ UNCHANGED <<holder, known, current, same, local, call, late, writes, acted>>

Turn(c) == Look(c) \/ Looked(c) \/ Claim(c) \/ TakeClaim(c) \/ Claimed(c) \/ Doubt(c)

Next ==
  \/ \E c \in Contenders : Turn(c) \/ Write(c) \/ Crash(c) \/ Release(c)
  \/ \E one \in late : TakeLateClaim(one)
  \/ \E one \in writes : TakeWrite(one)
  \/ Delete \/ Tick

Spec == Init /\ [][Next]_vars
Fair == Init /\ [][Next \/ Settle]_vars /\ WF_vars(Settle) /\ WF_vars(Tick) /\ \A c \in Contenders : WF_vars(Turn(c))

(* ---- What must hold ---- *)

Symmetry == Permutations(Contenders)
OneWriter == \A c, d \in Contenders : MayWrite(c) /\ MayWrite(d) => c = d

\* While a write is on its way nobody else may write: the server never takes an older decision after a newer one.
NoLateWrite == \A one \in writes : \A c \in Contenders : MayWrite(c) => c = one.by

\* Once nothing fails any more, somebody leads, and goes on leading.
Led == <>[](\E c \in Contenders : MayWrite(c))
=============================================================================
