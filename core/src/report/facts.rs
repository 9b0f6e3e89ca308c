//! What is known from the variant of a problem.

use super::Level;

/// A row of the table of problems, which is split by their kinds: `Problem::facts`, `RequestProblem::facts`.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    /// A word that is stable across versions.
    pub(super) class: &'static str,
    pub(super) level: Level,
    /// The text of the report; empty if it has details.
    pub(super) text: &'static str,
    /// What the user can do; empty if there is nothing to do or it depends on details. A device has no room for it.
    #[cfg(feature = "std")]
    pub(super) advice: &'static str,
}

impl Facts {
    pub(super) const fn new(class: &'static str, level: Level) -> Self {
        Self {
            class,
            level,
            text: "",
            #[cfg(feature = "std")]
            advice: "",
        }
    }

    pub(super) const fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    pub(super) const fn text(self, text: &'static str) -> Self {
        Self { text, ..self }
    }

    #[cfg(feature = "std")]
    pub(super) const fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    #[cfg(not(feature = "std"))]
    pub(super) const fn advice(self, _: &'static str) -> Self {
        self
    }
}
