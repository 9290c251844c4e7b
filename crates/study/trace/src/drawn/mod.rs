//! Drawn workloads: mixtures of flows, such as databases with journals, moving hot sets, files that
//! are written and deleted, and bulk writes. They show whether a figure holds for workloads that
//! nobody chose.

mod flow;
mod mixture;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::record::Op;
use crate::workload::Workload;
use flow::Flow;
use mixture::{PHASES, mixture};

/// Requests of a drawn mixture.
#[derive(Debug)]
pub(crate) struct Drawn {
    flows: Vec<Flow>,
    /// Requests of a phase.
    phase: u64,
    rng: Xoshiro256PlusPlus,
    /// Whether a flow flushes before its next request.
    flushes: bool,
}

impl Drawn {
    /// Makes the requests of `work`. Its number `draw` determines the mixture, `seed` the requests.
    pub(crate) fn new(work: &Workload, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let shapes = mixture(work.draw, work.span);
        let flows = shapes.into_iter().map(|shape| Flow::new(shape, rng.random())).collect();
        let phase = work.count.div_ceil(PHASES as u64);
        Drawn { flows, phase, rng, flushes: false }
    }

    /// Returns whether a flush is due, and expects that it is issued.
    pub(crate) fn take_flush(&mut self) -> bool {
        core::mem::take(&mut self.flushes)
    }

    /// Returns request `made` of the workload.
    pub(crate) fn request(&mut self, made: u64) -> (Op, u64, u64) {
        let phase = (made / self.phase) as usize;
        let all: u64 = self.flows.iter().map(|flow| flow.weight(phase)).sum();
        let mut place = self.rng.random_range(0..all);
        let flow = self.flows.iter_mut().find(|flow| {
            let weight = flow.weight(phase);
            let is_here = place < weight;
            place = place.saturating_sub(weight);
            is_here
        });
        let flow = flow.expect("the place is within the sum");
        let request = flow.request();
        self.flushes = flow.take_flush();
        request
    }
}
