//! Detection of lists whose pages never end.

use super::config::EMPTY_PAGES;
use crate::storage::hash;

/// Tracks the `continue` tokens of one list in constant space.
///
/// A repeated token would make the reflector request the same pages for ever. Brent's algorithm detects such a cycle
/// with a single remembered token: it is compared with each new token, and replaced after 1, 2, 4, 8, … pages.
#[derive(Clone, Copy, Default)]
pub(super) struct Pages {
    remembered: Option<u64>,
    /// The number of pages since then.
    since: u32,
    /// The number of pages after which another token is remembered.
    limit: u32,
    /// The number of consecutive empty pages.
    empty: u8,
    /// The current page has an item.
    has_items: bool,
}

impl Pages {
    /// Records that the current page has an item.
    pub(super) const fn item(&mut self) {
        self.has_items = true;
    }

    /// Adds the token of the next page. Returns whether the list makes no progress: a token was repeated, or too many
    /// consecutive pages were empty.
    pub(super) fn is_endless(&mut self, token: &[u8]) -> bool {
        let is_empty = !core::mem::take(&mut self.has_items);
        self.empty = if is_empty {
            self.empty.saturating_add(1)
        } else {
            0
        };
        let token = Some(u64::from(hash(0, token)) << 32 | u64::from(hash(1, token)));
        if self.remembered == token || self.empty >= EMPTY_PAGES {
            return true;
        }
        if self.since == self.limit {
            self.remembered = token;
            self.since = 0;
            self.limit = self.limit.saturating_mul(2).max(1);
        }
        self.since = self.since.saturating_add(1);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many pages a list is found to be endless, if `cycle` tokens repeat after `lead` others.
    fn pages(lead: u32, cycle: u32) -> Option<u32> {
        let mut pages = Pages::default();
        (0..100_000).find(|&page| {
            let token = if page < lead {
                page
            } else {
                lead + (page - lead) % cycle
            };
            pages.item();
            pages.is_endless(&token.to_be_bytes())
        })
    }

    #[test]
    fn a_cycle_of_tokens_is_found_and_a_long_list_is_not_one() {
        assert_eq!(pages(0, 1), Some(1), "the same token twice");
        for (lead, cycle) in [(0, 2), (5, 1), (7, 3), (100, 17), (1, 1000)] {
            let found = pages(lead, cycle).unwrap();
            assert!(found <= 3 * (lead + cycle) + 2, "{lead} {cycle}: {found}");
        }
        assert_eq!(pages(100_000, 1), None);
    }

    #[test]
    fn empty_pages_are_endless_after_a_while() {
        let mut pages = Pages::default();
        let endless = (0_u32..1000).find(|page| pages.is_endless(&page.to_be_bytes()));
        assert_eq!(endless, Some(u32::from(EMPTY_PAGES) - 1));
    }
}
