//! Turns and places by hand, then everything at random against a store that is a map.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Included};
use std::time::Duration;

use super::*;
use crate::rng::Rng;

const A: Lane = Lane(1);
const B: Lane = Lane(2);
const FRESH: Progress = Progress {
    attempts: 0,
    replayed: false,
};
const ONCE: Progress = Progress {
    attempts: 1,
    replayed: false,
};
const S: Duration = Duration::from_secs(1);
const NOW: Moment = Moment::START;

fn loose() -> Lane {
    Lane::unordered("r")
}

fn lanes(arrivals: &[(Lane, u64)]) -> Lanes {
    let mut lanes = Lanes::new(Seq(0));
    for (lane, seq) in arrivals {
        lanes.arrived(*lane, Seq(*seq), FRESH);
    }
    lanes
}

fn take(lanes: &mut Lanes) -> Option<(Lane, u64)> {
    take_at(lanes, NOW)
}

fn take_at(lanes: &mut Lanes, now: Moment) -> Option<(Lane, u64)> {
    let (head, next) = lanes.take(now)?;
    assert!(next.is_none() || !head.lane.is_ordered(), "{next:?}");
    Some((head.lane, head.seq.0))
}

fn head(lane: Lane, seq: u64) -> Head {
    Head {
        lane,
        seq: Seq(seq),
        progress: FRESH,
    }
}

fn next(lane: Lane, from: u64, to: u64) -> Next {
    Next {
        lane,
        from: Seq(from),
        to: Seq(to),
    }
}

#[test]
fn whoever_backs_off_is_due_at_once_if_all_are_hurried() {
    let mut lanes = Lanes::new(Seq(0));
    let now = Moment::START;
    let hour = Duration::from_secs(3_600);
    for lane in 1..=5 {
        lanes.arrived(Lane(lane), Seq(lane), Progress::default());
        let (head, _) = lanes.take(now).expect("it is due");
        let _ = lanes.back_off(head.lane, head.seq, Progress::default(), now + hour);
    }
    assert_eq!(lanes.take(now), None);
    assert_eq!(lanes.next_due(now), Some(now + hour));
    lanes.hurry_all();
    assert_eq!(lanes.next_due(now), None);
    // One that is given up, and one that a replay comes before.
    let _ = lanes.discarded(Lane(2), Seq(2));
    let _ = lanes.refill(Lane(2), None);
    lanes.arrived(Lane(3), Seq(0), Progress::default());
    let mut taken = Vec::new();
    while let Some((head, _)) = lanes.take(now) {
        taken.push((head.lane.0, head.seq.0));
        if head.lane == Lane(1) {
            // It fails once more, and is not hurried again.
            let _ = lanes.back_off(head.lane, head.seq, Progress::default(), now + hour);
        }
    }
    taken.sort_unstable();
    assert_eq!(taken, [(1, 1), (3, 0), (4, 4), (5, 5)]);
    assert_eq!(lanes.next_due(now), Some(now + hour));
    lanes.hurry_all();
    let (head, _) = lanes.take(now).expect("all are hurried again");
    assert_eq!(head.lane, Lane(1));
}

#[test]
fn a_slot_is_small() {
    assert_eq!(size_of::<(Lane, Slot)>(), 40);
    assert_eq!(size_of::<(Moment, Lane)>(), 24);
}

#[test]
fn one_delivery_of_an_ordered_lane_is_in_flight_at_a_time() {
    let mut lanes = lanes(&[(A, 1), (A, 2)]);
    assert_eq!(take(&mut lanes), Some((A, 1)));
    assert_eq!(take(&mut lanes), None);
    assert_eq!(lanes.in_flight(), 1);
    assert_eq!(lanes.settled(A, Seq(1)), Some(next(A, 2, 2)));
    assert_eq!(take(&mut lanes), None);
    assert_eq!(lanes.refill(A, Some((Seq(2), FRESH))), None);
    assert_eq!(take(&mut lanes), Some((A, 2)));
    assert_eq!(lanes.settled(A, Seq(2)), Some(next(A, 3, 2)));
    assert_eq!(lanes.refill(A, None), None);
    assert!(lanes.is_empty());
}

#[test]
fn a_backlog_takes_turns_with_live_events() {
    let mut lanes = lanes(&[(A, 1)]);
    for seq in 1..1_000 {
        lanes.arrived(A, Seq(seq), FRESH);
    }
    let mut backlog = 1;
    for live in 1_000..1_100 {
        lanes.arrived(B, Seq(live), FRESH);
        let taken = [take(&mut lanes), take(&mut lanes)];
        assert_eq!(taken, [Some((A, backlog)), Some((B, live))]);
        assert_eq!(
            lanes.settled(A, Seq(backlog)),
            Some(next(A, backlog + 1, live))
        );
        backlog += 1;
        assert_eq!(lanes.refill(A, Some((Seq(backlog), FRESH))), None);
        assert_eq!(lanes.settled(B, Seq(live)), Some(next(B, live + 1, live)));
        assert_eq!(lanes.refill(B, None), None);
    }
}

#[test]
fn a_spared_lane_goes_to_the_back_so_probes_rotate() {
    let mut lanes = lanes(&[(A, 1), (B, 2)]);
    for _ in 0..3 {
        assert_eq!(take(&mut lanes), Some((A, 1)));
        assert_eq!(lanes.spare(head(A, 1)), None);
        assert_eq!(take(&mut lanes), Some((B, 2)));
        assert_eq!(lanes.spare(head(B, 2)), None);
    }
}

#[test]
fn a_lane_waits_while_its_head_backs_off() {
    let mut lanes = lanes(&[(A, 1), (B, 2)]);
    assert_eq!(take(&mut lanes), Some((A, 1)));
    let backed_off = lanes.back_off(A, Seq(1), ONCE, NOW + S);
    assert_eq!(backed_off, (Row::Stays, None));
    lanes.arrived(A, Seq(3), FRESH);
    assert_eq!(take(&mut lanes), Some((B, 2)));
    assert_eq!(take(&mut lanes), None);
    assert_eq!(lanes.next_due(NOW), Some(NOW + S));
    assert_eq!(lanes.next_due(NOW + S), None);
    let (head, _) = lanes.take(NOW + S).expect("it is due");
    assert_eq!((head.lane, head.seq, head.progress), (A, Seq(1), ONCE));
}

#[test]
fn a_replay_goes_back_to_its_place() {
    // The head is ready, backs off, or is in flight and then ends in each way.
    let mut lanes = lanes(&[(A, 5)]);
    lanes.arrived(A, Seq(4), FRESH);
    assert_eq!(take(&mut lanes), Some((A, 4)));
    let _ = lanes.back_off(A, Seq(4), ONCE, NOW + S);
    lanes.arrived(A, Seq(3), FRESH);
    assert_eq!(take(&mut lanes), Some((A, 3)));
    assert_eq!(lanes.next_due(NOW), None);
    lanes.arrived(A, Seq(2), FRESH);
    assert_eq!(lanes.settled(A, Seq(3)), Some(next(A, 2, 5)));
    assert_eq!(lanes.refill(A, Some((Seq(2), FRESH))), None);
    assert_eq!(take(&mut lanes), Some((A, 2)));
    lanes.arrived(A, Seq(1), FRESH);
    let backed_off = lanes.back_off(A, Seq(2), ONCE, NOW + S);
    assert_eq!(backed_off, (Row::Stays, Some(next(A, 1, 5))));
    assert_eq!(lanes.refill(A, Some((Seq(1), FRESH))), None);
    assert_eq!(take(&mut lanes), Some((A, 1)));
    lanes.arrived(A, Seq(0), FRESH);
    assert_eq!(lanes.spare(head(A, 1)), Some(next(A, 0, 5)));
}

#[test]
fn what_arrives_while_a_lane_is_read_is_not_forgotten() {
    let mut lanes = lanes(&[(A, 1)]);
    assert_eq!(take(&mut lanes), Some((A, 1)));
    assert_eq!(lanes.settled(A, Seq(1)), Some(next(A, 2, 1)));
    lanes.arrived(A, Seq(2), FRESH);
    assert_eq!(lanes.refill(A, None), Some(next(A, 2, 2)));
    assert_eq!(lanes.refill(A, Some((Seq(2), FRESH))), None);
    assert_eq!(take(&mut lanes), Some((A, 2)));
}

#[test]
fn a_counted_failure_of_an_unordered_lane_moves_to_a_lane_of_its_own() {
    let mut lanes = lanes(&[(loose(), 1), (loose(), 2)]);
    let (_, read) = lanes.take(NOW).expect("it is due");
    assert_eq!(read, Some(next(loose(), 2, 2)));
    assert_eq!(lanes.refill(loose(), Some((Seq(2), FRESH))), None);
    let alone = Lane::alone(Seq(1));
    let backed_off = lanes.back_off(loose(), Seq(1), ONCE, NOW + S);
    assert_eq!(backed_off, (Row::MovesTo(alone), None));
    assert_eq!(take(&mut lanes), Some((loose(), 2)));
    assert_eq!(lanes.refill(loose(), None), None);
    assert_eq!(take_at(&mut lanes, NOW + S), Some((alone, 1)));
    let backed_off = lanes.back_off(alone, Seq(1), ONCE, NOW + S);
    assert_eq!(backed_off, (Row::Stays, None));
}

#[test]
fn a_spared_delivery_of_an_unordered_lane_keeps_its_row() {
    let mut lanes = lanes(&[(loose(), 1)]);
    let _ = lanes.take(NOW).expect("it is due");
    assert_eq!(lanes.refill(loose(), None), None);
    assert_eq!(lanes.spare(head(loose(), 1)), None);
    assert_eq!(take(&mut lanes), Some((loose(), 1)));
    assert_eq!(lanes.spare(head(loose(), 1)), None);
    assert_eq!(take(&mut lanes), Some((loose(), 1)));
    let (row, _) = lanes.back_off(loose(), Seq(1), ONCE, NOW);
    assert_eq!(row, Row::MovesTo(Lane::alone(Seq(1))));
    assert_eq!(take(&mut lanes), Some((Lane::alone(Seq(1)), 1)));
}

#[test]
fn a_delivery_that_waits_by_itself_is_not_also_in_its_old_lane() {
    for spared in [true, false] {
        let mut lanes = lanes(&[(loose(), 1)]);
        let _ = lanes.take(NOW).expect("it is due");
        assert_eq!(lanes.refill(loose(), None), None);
        if spared {
            assert_eq!(lanes.spare(head(loose(), 1)), None);
        } else {
            let _ = lanes.back_off(loose(), Seq(1), ONCE, NOW);
        }
        // Announced again, and found again by reading from a replay on.
        lanes.arrived(loose(), Seq(1), FRESH);
        assert_eq!(lanes.len(), 1);
        lanes.arrived(loose(), Seq(0), FRESH);
        let mut taken: Vec<_> = (0..2).filter_map(|_| take(&mut lanes)).collect();
        taken.sort_by_key(|(_, seq)| *seq);
        let lane = if spared { loose() } else { Lane::alone(Seq(1)) };
        assert_eq!(taken, [(loose(), 0), (lane, 1)]);
        if spared {
            let found = Some((Seq(1), FRESH));
            assert_eq!(lanes.refill(loose(), found), Some(next(loose(), 2, 1)));
        }
        assert_eq!(lanes.refill(loose(), None), None);
        assert_eq!(take(&mut lanes), None);
    }
}

#[test]
fn a_replay_to_its_old_lane_is_taken_while_its_own_lane_is_read() {
    let mut lanes = lanes(&[(loose(), 1)]);
    let _ = lanes.take(NOW).expect("it is due");
    assert_eq!(lanes.refill(loose(), None), None);
    let alone = Lane::alone(Seq(1));
    let _ = lanes.back_off(loose(), Seq(1), ONCE, NOW);
    assert_eq!(take(&mut lanes), Some((alone, 1)));
    assert_eq!(lanes.settled(alone, Seq(1)), Some(next(alone, 2, 1)));
    lanes.arrived(loose(), Seq(1), FRESH);
    assert_eq!(lanes.refill(alone, None), None);
    assert_eq!(take(&mut lanes), Some((loose(), 1)));
}

#[test]
fn a_discarded_delivery_is_not_taken() {
    // A waiting head, one behind it, one in flight that then fails, and one nobody knows.
    let mut lanes = lanes(&[(A, 1), (A, 2), (B, 3), (loose(), 4)]);
    assert_eq!(lanes.discarded(A, Seq(2)), None);
    assert_eq!(lanes.discarded(A, Seq(1)), Some(next(A, 2, 4)));
    assert_eq!(lanes.refill(A, None), None);
    assert_eq!(take(&mut lanes), Some((B, 3)));
    assert_eq!(lanes.discarded(B, Seq(3)), None);
    let backed_off = lanes.back_off(B, Seq(3), ONCE, NOW);
    assert_eq!(backed_off, (Row::Gone, Some(next(B, 4, 4))));
    assert_eq!(lanes.refill(B, None), None);
    assert_eq!(take(&mut lanes), Some((loose(), 4)));
    assert_eq!(lanes.refill(loose(), None), None);
    assert_eq!(lanes.spare(head(loose(), 4)), None);
    assert_eq!(lanes.discarded(loose(), Seq(4)), None);
    assert_eq!(lanes.discarded(A, Seq(9)), None);
    assert_eq!(take(&mut lanes), None);
    assert!(lanes.is_empty());
}

#[test]
fn an_end_that_is_told_twice_changes_nothing() {
    let mut lanes = lanes(&[(A, 1)]);
    assert_eq!(take(&mut lanes), Some((A, 1)));
    assert_eq!(lanes.spare(head(A, 1)), None);
    assert_eq!(lanes.spare(head(A, 1)), None);
    assert_eq!(lanes.settled(A, Seq(1)), None);
    let again = lanes.back_off(A, Seq(1), ONCE, NOW + S);
    assert_eq!(again, (Row::Gone, None));
    assert_eq!(lanes.refill(A, None), None);
    assert_eq!(take(&mut lanes), Some((A, 1)));
}

/// A store that is a map, and a caller that does everything in any order.
struct World {
    rng: Rng,
    now: Moment,
    lanes: Lanes,
    /// What is pending.
    rows: BTreeMap<(Lane, Seq), Progress>,
    /// What is no longer pending and can be replayed.
    ended: Vec<(Lane, Seq)>,
    /// Committed and not yet announced.
    unannounced: VecDeque<(Lane, Seq)>,
    last: Seq,
    announced: Seq,
    /// To be read, and what was read but not yet handed over.
    unread: Vec<Next>,
    read: Vec<(Lane, Option<(Seq, Progress)>)>,
    in_flight: Vec<Head>,
    taken: u64,
}

impl World {
    /// A store with a backlog, whose heads have just been read.
    fn new(seed: u64) -> Self {
        let mut world = Self {
            rng: Rng::from_seed(seed),
            now: NOW,
            lanes: Lanes::new(Seq(20)),
            rows: BTreeMap::new(),
            ended: Vec::new(),
            unannounced: VecDeque::new(),
            last: Seq(0),
            announced: Seq(20),
            unread: Vec::new(),
            read: Vec::new(),
            in_flight: Vec::new(),
            taken: 0,
        };
        for _ in 0..20 {
            world.commit();
        }
        world.unannounced.clear();
        let mut known = BTreeSet::new();
        for ((lane, seq), progress) in world.rows.clone() {
            if known.insert(lane) {
                world.lanes.arrived(lane, seq, progress);
            }
        }
        world
    }

    fn step(&mut self) {
        match self.rng.below(40) {
            0..=2 => self.commit(),
            3..=5 => self.announce(),
            6..=8 if self.in_flight.len() < 6 => _ = self.take(),
            9..=11 => self.end_one(),
            12 => self.replay(),
            13 => self.discard(),
            14 => self.now = self.now + S,
            _ => self.read_some(),
        }
    }

    fn commit(&mut self) {
        let lanes = [A, B, Lane(3), loose(), Lane::unordered("s")];
        let lane = lanes[self.index(lanes.len())];
        self.last = after(self.last);
        self.rows.insert((lane, self.last), FRESH);
        self.unannounced.push_back((lane, self.last));
    }

    fn announce(&mut self) {
        if let Some((lane, seq)) = self.unannounced.pop_front()
            && self.rows.contains_key(&(lane, seq))
        {
            self.announced = seq;
            self.lanes.arrived(lane, seq, FRESH);
        }
    }

    fn take(&mut self) -> bool {
        let Some((head, next)) = self.lanes.take(self.now) else {
            return false;
        };
        self.unread.extend(next);
        let Head { lane, seq, .. } = head;
        let row = self.rows.get(&(lane, seq));
        assert_eq!(row, Some(&head.progress), "{head:?} is not as in the store");
        for other in &self.in_flight {
            assert_ne!((other.lane, other.seq), (lane, seq), "taken twice");
            assert!(
                !lane.is_ordered() || other.lane != lane,
                "{lane:?} overtaken"
            );
        }
        if lane.is_ordered() {
            let announced = (lane, Seq(0))..=(lane, self.announced.max(seq));
            let first = self.rows.range(announced).next().map(|(key, _)| *key);
            assert_eq!(first, Some((lane, seq)), "out of order");
        }
        self.in_flight.push(head);
        self.taken += 1;
        assert_eq!(self.lanes.in_flight(), self.in_flight.len());
        true
    }

    fn end_one(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let index = self.index(self.in_flight.len());
        let head = self.in_flight.swap_remove(index);
        let Head { lane, seq, .. } = head;
        let next = match self.rng.below(4) {
            0 => self.lanes.spare(head),
            1 => {
                let attempts = head.progress.attempts + 1;
                let progress = Progress {
                    attempts,
                    ..head.progress
                };
                let due = self.now + S * u32::try_from(self.rng.below(4)).expect("small");
                let (row, next) = self.lanes.back_off(lane, seq, progress, due);
                let old = self.rows.remove(&(lane, seq));
                assert_eq!(old.is_none(), row == Row::Gone, "{head:?}");
                match row {
                    Row::Stays => _ = self.rows.insert((lane, seq), progress),
                    Row::MovesTo(alone) => _ = self.rows.insert((alone, seq), progress),
                    Row::Gone => {}
                }
                next
            }
            _ => {
                if self.rows.remove(&(lane, seq)).is_some() {
                    self.ended.push((lane, seq));
                }
                self.lanes.settled(lane, seq)
            }
        };
        self.unread.extend(next);
    }

    fn replay(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        let index = self.index(self.ended.len());
        let (lane, seq) = self.ended.swap_remove(index);
        // One that was discarded in flight comes back as it was.
        let in_flight = |head: &&Head| (head.lane, head.seq) == (lane, seq);
        let before = self.in_flight.iter().find(in_flight);
        let progress = before.map_or(FRESH, |head| head.progress);
        self.rows.insert((lane, seq), progress);
        self.lanes.arrived(lane, seq, progress);
    }

    fn discard(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let index = self.index(self.rows.len());
        let (lane, seq) = *self.rows.keys().nth(index).expect("it is below the length");
        self.rows.remove(&(lane, seq));
        if seq <= self.announced {
            self.ended.push((lane, seq));
        }
        self.unread.extend(self.lanes.discarded(lane, seq));
    }

    /// Reads one, or hands over one that was read: other things may happen in between.
    fn read_some(&mut self) {
        if self.rng.below(2) == 0 && !self.unread.is_empty() {
            let index = self.index(self.unread.len());
            let Next { lane, from, to } = self.unread.swap_remove(index);
            let range = (Included((lane, from)), Excluded((lane, after(to))));
            let found = if from <= to {
                self.rows.range(range).next()
            } else {
                None
            };
            self.read
                .push((lane, found.map(|((_, seq), progress)| (*seq, *progress))));
        } else if !self.read.is_empty() {
            let index = self.index(self.read.len());
            let (lane, found) = self.read.swap_remove(index);
            self.unread.extend(self.lanes.refill(lane, found));
        }
    }

    /// Everything is announced, read, taken and delivered, until nothing is left.
    fn heal(&mut self) {
        for _ in 0..20_000 {
            self.announce();
            self.read_some();
            self.take();
            self.end_one();
            if self.rng.below(4) == 0 {
                self.now = self.now + S;
            }
        }
        assert_eq!(self.rows, BTreeMap::new(), "forgotten: {:#?}", self.lanes);
        assert!(self.lanes.is_empty(), "{:#?}", self.lanes);
        let Lanes {
            ready,
            waiting,
            homes,
            ..
        } = &self.lanes;
        assert!(ready.is_empty() && waiting.is_empty() && homes.is_empty());
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.rng.below(length as u64)).expect("it is below a length")
    }
}

#[test]
fn nothing_is_forgotten_taken_twice_or_out_of_order() {
    for seed in 0..100 {
        let life = move || {
            let mut world = World::new(seed);
            for _ in 0..4_000 {
                world.step();
            }
            world.heal();
            assert!(200 < world.taken, "{}", world.taken);
        };
        if std::panic::catch_unwind(life).is_err() {
            unreachable!("repeat with seed {seed}");
        }
    }
}
