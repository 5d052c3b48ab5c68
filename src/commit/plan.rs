//! What one step of the committer is about to write, and who waits for it.

use super::operate::{self, Operation, Report, Said};
use super::prune::Expired;
use super::repeats::Repeated;
use super::shed::Victim;
use super::{Admission, Done, Notice};
use crate::clock::Reading;
use crate::event::Seq;
use crate::store::{Error, Tables};

/// The work of one step, sorted.
pub(super) struct Plan<T> {
    /// Events to store, with the numbers they will have.
    pub(super) admissions: Vec<(Seq, Admission)>,
    /// What operators want, in the order they said it.
    pub(super) operations: Vec<(Operation, T)>,
    /// Who can be answered after the commit, and what.
    pub(super) waiting: Vec<(T, Done)>,
    /// What the dispatcher must know after the commit.
    pub(super) notices: Vec<Notice>,
    /// What the log says of the operations.
    pub(super) said: Vec<Said>,
    /// What retention removes along with the rest.
    pub(super) expired: Expired,
    /// What is given up for events that matter more.
    pub(super) shed: Vec<Victim>,
    /// Duplicates that are to be said.
    pub(super) repeats: Vec<Repeated>,
    reports: Vec<Report>,
}

impl<T> Default for Plan<T> {
    fn default() -> Self {
        Self {
            admissions: Vec::new(),
            operations: Vec::new(),
            waiting: Vec::new(),
            notices: Vec::new(),
            said: Vec::new(),
            expired: Expired::default(),
            shed: Vec::new(),
            repeats: Vec::new(),
            reports: Vec::new(),
        }
    }
}

impl<T> Plan<T> {
    /// Whether nothing of it needs a commit.
    pub(super) fn is_empty(&self) -> bool {
        self.admissions.is_empty()
            && self.operations.is_empty()
            && self.expired.is_empty()
            && self.repeats.is_empty()
    }

    /// Gives up what is to make room.
    pub(super) fn shed_from(&mut self, tables: &mut Tables<'_>, now: Reading) -> Result<(), Error> {
        for victim in &self.shed {
            victim.remove_from(tables, now, &mut self.notices, &mut self.said)?;
        }
        Ok(())
    }

    /// Does what operators want.
    pub(super) fn operate_on(
        &mut self,
        tables: &mut Tables<'_>,
        now: Reading,
    ) -> Result<(), Error> {
        for (operation, _) in &self.operations {
            let mut effects = operate::Effects::new(now, &mut self.notices, &mut self.said);
            self.reports.push(effects.operate(tables, operation)?);
        }
        Ok(())
    }

    /// Everybody who waits, answered: the step is on disk.
    pub(super) fn answers(self) -> (Vec<(T, Done)>, Vec<Notice>) {
        let mut waiting = self.waiting;
        let operators = self.operations.into_iter().map(|(_, who)| who);
        let reports = self.reports.into_iter().map(Done::Operated);
        waiting.extend(operators.zip(reports));
        (waiting, self.notices)
    }

    /// Everybody who waits, unanswered: the step failed.
    pub(super) fn abandon(self) -> Vec<T> {
        let waiting = self.waiting.into_iter().map(|(who, _)| who);
        waiting
            .chain(self.operations.into_iter().map(|(_, who)| who))
            .collect()
    }
}
