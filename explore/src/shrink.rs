//! Shrinks a list for which a test fails.

/// Removes items from a list while `fails` returns true for the rest: large parts first, then single items. `budget`
/// limits the calls of `fails`, and is reduced by them.
///
/// It is for programs that find failures with random lists, as [`Explore`](crate::Explore) does.
///
/// ```
/// let mut budget = 100;
/// let small = informer_explore::shrink(&[1, 2, 3, 4, 5, 6, 7, 8], &mut budget, &mut |rest| rest.contains(&3) && rest.contains(&7));
/// assert_eq!(small, [3, 7]);
/// ```
pub fn shrink<A: Clone>(
    list: &[A],
    budget: &mut usize,
    fails: &mut dyn FnMut(&[A]) -> bool,
) -> Vec<A> {
    let mut list = list.to_vec();
    let mut size = list.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut removed = false;
        while at < list.len() {
            if *budget == 0 {
                return list;
            }
            *budget -= 1;
            let mut smaller = list.clone();
            smaller.drain(at..(at + size).min(list.len()));
            if fails(&smaller) {
                list = smaller;
                removed = true;
            } else {
                at += size;
            }
        }
        if size == 1 && !removed {
            return list;
        }
        if !removed || size > list.len() {
            size = (size / 2).max(1);
        }
    }
}
