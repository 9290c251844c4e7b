//! What was written, as a tree: who consents to go on without a member may fork it.

#[derive(Clone, Debug)]
pub(super) struct History {
    nodes: Vec<Node>,
    /// The newest flush of each line.
    leaves: Vec<u32>,
    /// What each device may go on from, because somebody consented, though it may be old.
    consented: Vec<Option<u32>>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    depth: u32,
    /// The newest flush that was answered, up to here.
    acked: u32,
}

impl History {
    /// Of a new volume over so many devices.
    pub(super) fn new(devices: usize) -> Self {
        let nodes = vec![Node { parent: 0, depth: 0, acked: 0 }];
        History { nodes, leaves: vec![0], consented: vec![None; devices] }
    }

    fn node(&self, node: u32) -> Node {
        self.nodes[node as usize]
    }

    /// One more device comes.
    pub(super) fn grow(&mut self) {
        self.consented.push(None);
    }

    /// How much was written before.
    pub(super) fn depth(&self, node: u32) -> u32 {
        self.node(node).depth
    }

    /// The newest flush that was answered, up to `node`.
    pub(super) fn acked(&self, node: u32) -> u32 {
        self.node(node).acked
    }

    /// Whether `to` has all that `from` has.
    pub(super) fn leads_to(&self, from: u32, to: u32) -> bool {
        let (depth, mut at) = (self.depth(from), to);
        while self.depth(at) > depth {
            at = self.node(at).parent;
        }
        at == from
    }

    /// Something is written after `node`, and not answered yet.
    pub(super) fn write(&mut self, parent: u32) -> u32 {
        let Node { depth, acked, .. } = self.node(parent);
        self.nodes.push(Node { parent, depth: depth + 1, acked });
        self.nodes.len() as u32 - 1
    }

    /// The flush of `node` is answered, by these members.
    pub(super) fn promise(&mut self, node: u32, line: usize, members: impl Iterator<Item = usize>) {
        self.nodes[node as usize].acked = node;
        self.leaves[line] = node;
        members.for_each(|member| self.consented[member] = None);
    }

    /// The line that these members may continue, whose newest flush is `base`.
    pub(super) fn line(
        &mut self,
        base: u32,
        mut members: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        let line = self.leaves.iter().position(|leaf| *leaf == base);
        let agreed = members.any(|member| self.consented[member] == Some(base));
        line.or_else(|| agreed.then(|| self.fork(base)))
    }

    /// Somebody consents to go on from `base`, which is not the newest.
    pub(super) fn fork(&mut self, base: u32) -> usize {
        self.leaves.push(base);
        self.leaves.len() - 1
    }

    /// Somebody consented that these members go on from `base`.
    pub(super) fn consent(&mut self, members: impl Iterator<Item = usize>, base: u32) {
        members.for_each(|member| self.consented[member] = Some(base));
    }

    /// The newest flush of each line.
    pub(super) fn leaves(&self) -> Vec<u32> {
        let mut leaves = self.leaves.clone();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }
}
