//! Texts cut to the width of a terminal.

use super::screen::fit;

#[test]
fn lines_are_cut_by_the_columns_that_they_take() {
    for (text, width, shown) in [
        ("default/web", None, "default/web"),
        ("default/web", Some(11), "default/web"),
        ("default/web", Some(8), "default…"),
        // Characters that take two columns, and some that take none.
        ("日本語", Some(6), "日本語"),
        ("日本語", Some(5), "日本…"),
        ("日本語", Some(4), "日…"),
        ("e\u{301}te\u{301}", Some(3), "e\u{301}te\u{301}"),
        ("web", Some(1), "…"),
        ("web", Some(0), ""),
        // Control characters are replaced by a mark.
        ("a\x1b[2J\r\nb", None, "a\u{fffd}[2J\u{fffd}\u{fffd}b"),
    ] {
        assert_eq!(fit(text, width), shown, "{text:?} in {width:?}");
    }
}
