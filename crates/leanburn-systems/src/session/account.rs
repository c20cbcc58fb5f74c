//! Where the memory of a run went: its peak, by cause.

use bytesize::ByteSize;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use leanburn_train::LearnerMemory;

use crate::report::MemoryRow;

/// What a run held at its peak. The causes add up to the peak.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Each learner's name and what it holds between steps.
    pub learners: Vec<(&'static str, LearnerMemory)>,
    /// Volumes or fields held in memory.
    pub data: u64,
    /// Whether it is fields.
    pub is_sequence: bool,
    /// Batches that wait for their turn.
    pub batches: u64,
    /// The most that was held at once; 0 where nothing counts it.
    pub peak: u64,
    /// The step's peak as it was planned.
    pub planned_step: u64,
}

impl Account {
    /// A row a cause; the last is what is left of the peak: activations, and whatever operations need on the way.
    pub fn rows(&self) -> Vec<MemoryRow> {
        let sum = |part: fn(&LearnerMemory) -> u64| self.learners.iter().map(|(_, memory)| part(memory)).sum::<u64>();
        let learners = self.learners.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ");
        let (section, in_memory, to_save) = match self.is_sequence {
            false => ("data", "volumes in memory", "data.cache_rate makes it smaller"),
            true => ("sequence", "fields in memory", "sequence.downsample makes it smaller"),
        };
        let causes = [
            ("weights", sum(|memory| memory.weights), format!("f32 masters of {learners}")),
            ("gradients", sum(|memory| memory.gradients), "accumulated over the micro-batches".to_string()),
            ("optimizer states", sum(|memory| memory.optimizer), "two moments a weight".to_string()),
            ("average of weights", sum(|memory| memory.average), "for validation and export".to_string()),
            (in_memory, self.data, to_save.to_string()),
            ("batches in flight", self.batches, format!("{section}.prefetch makes it smaller")),
        ];
        let known: u64 = causes.iter().map(|(_, bytes, _)| bytes).sum();
        let rest =
            ("activations", self.peak.saturating_sub(known), "and workspace: what is left of the peak".to_string());
        let rows = causes.into_iter().chain([rest]).filter(|(_, bytes, _)| *bytes > 0);
        rows.map(|(cause, bytes, note)| MemoryRow { cause: cause.into(), bytes: ByteSize::b(bytes), note }).collect()
    }

    /// The peak as it was planned: the step's, volumes in memory, and batches that wait.
    pub fn planned(&self) -> u64 {
        self.planned_step + self.data + self.batches
    }

    /// The peak, if it was measured.
    pub fn peak(&self) -> Option<ByteSize> {
        (self.peak > 0).then(|| ByteSize::b(self.peak))
    }

    /// The rows as a table for the terminal.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(["memory at the peak", "size", "share", ""]);
        for row in self.rows() {
            let share = 100.0 * row.bytes.as_u64() as f64 / self.peak.max(1) as f64;
            table.add_row([row.cause, row.bytes.to_string(), format!("{share:.1} %"), row.note]);
        }
        let peak = self.peak().map_or("not measured".to_string(), |peak| peak.to_string());
        table.add_row(["peak, measured".to_string(), peak, String::new(), String::new()]);
        let planned = ByteSize::b(self.planned()).to_string();
        table.add_row(["peak, planned".to_string(), planned, String::new(), String::new()]);
        for column in [1, 2] {
            table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_add_up_to_the_peak() {
        let memory = LearnerMemory { weights: 10, gradients: 10, optimizer: 20, average: 0 };
        let account = Account {
            learners: vec![("a", memory), ("b", memory)],
            data: 5,
            is_sequence: false,
            batches: 6,
            peak: 1000,
            planned_step: 900,
        };
        let rows = account.rows();
        assert_eq!(rows.iter().map(|row| row.bytes.as_u64()).sum::<u64>(), 1000);
        assert!(rows.iter().any(|row| row.cause == "optimizer states" && row.bytes.as_u64() == 40));
        assert!(rows.iter().all(|row| row.cause != "average of weights"), "nothing is said of what is not there");
        assert!(account.table().to_string().contains("1000 B"));
    }
}
