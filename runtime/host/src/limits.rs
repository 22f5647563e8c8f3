//! What an instance may take: memory over all of its linear memories, elements over all of its tables.
//!
//! Growing beyond the limit ends the invocation and is not a `-1` that a guest may overlook: every path then ends the same way.

use wasmtime::ResourceLimiter;

use std::sync::Arc;

use crate::memory::MemoryShare;
use crate::settings::HostSettings;
use crate::trap::Stop;

/// What one instance has and may have. The sizes that it is instantiated with count too.
#[derive(Debug)]
pub(crate) struct Limits {
    memory: Account,
    tables: Account,
    share: Arc<MemoryShare>,
}

/// A total with its limit.
#[derive(Debug)]
struct Account {
    total: usize,
    limit: usize,
    /// The last growth that was allowed: given back if it then fails.
    last: usize,
}

/// What is to become of a growth.
enum Growth {
    Allowed,
    /// The guest's own maximum forbids it: the instruction answers -1.
    Refused,
    OverLimit(usize),
}

impl Account {
    fn new(limit: usize) -> Self {
        Self { total: 0, limit, last: 0 }
    }

    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Growth {
        // The pool's slots are larger than the limit, so a maximum within it can only be the module's own.
        if maximum.is_some_and(|maximum| maximum <= self.limit && desired > maximum) {
            return Growth::Refused;
        }
        let more = desired.saturating_sub(current);
        let total = self.total.saturating_add(more);
        if total > self.limit {
            return Growth::OverLimit(total);
        }
        self.total = total;
        self.last = more;
        Growth::Allowed
    }

    fn give_back(&mut self) {
        self.total -= std::mem::take(&mut self.last);
    }
}

impl Limits {
    /// `share` is told how much memory the instance has.
    pub(crate) fn new(settings: &HostSettings, share: Arc<MemoryShare>) -> Self {
        Self {
            memory: Account::new(settings.instance_memory_bytes),
            tables: Account::new(settings.instance_table_elements),
            share,
        }
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        match self.memory.grow(current, desired, maximum) {
            Growth::Allowed => {
                self.share.grown_to(self.memory.total);
                Ok(true)
            }
            Growth::Refused => {
                self.memory.last = 0;
                Ok(false)
            }
            Growth::OverLimit(asked) => Err(Stop::Memory { asked, limit: self.memory.limit }.into()),
        }
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory.give_back();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        match self.tables.grow(current, desired, maximum) {
            Growth::Allowed => Ok(true),
            Growth::Refused => {
                self.tables.last = 0;
                Ok(false)
            }
            Growth::OverLimit(asked) => Err(Stop::Tables { asked, limit: self.tables.limit }.into()),
        }
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.tables.give_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let settings =
            HostSettings { instance_memory_bytes: 100, instance_table_elements: 10, ..HostSettings::default() };
        Limits::new(&settings, Arc::new(MemoryShare::uncounted()))
    }

    #[test]
    fn all_memories_count_together_and_the_first_allocation_too() {
        let mut limits = limits();
        assert!(limits.memory_growing(0, 60, None).unwrap());
        assert!(limits.memory_growing(0, 40, None).unwrap());
        let stop = limits.memory_growing(40, 41, None).unwrap_err();
        assert_eq!(stop.downcast_ref::<Stop>(), Some(&Stop::Memory { asked: 101, limit: 100 }));
    }

    #[test]
    fn a_growth_that_fails_is_given_back_once() {
        let mut limits = limits();
        assert!(limits.memory_growing(0, 60, None).unwrap());
        limits.memory_grow_failed(wasmtime::Error::msg("no room")).unwrap();
        assert!(!limits.memory_growing(0, 60, Some(50)).unwrap(), "beyond the module's own maximum");
        limits.memory_grow_failed(wasmtime::Error::msg("maximum")).unwrap();
        assert!(limits.memory_growing(0, 100, None).unwrap());
    }

    #[test]
    fn tables_have_a_total_of_their_own() {
        let mut limits = limits();
        assert!(limits.table_growing(0, 10, None).unwrap());
        assert!(limits.table_growing(0, 1, Some(20)).unwrap_err().is::<Stop>());
    }
}
