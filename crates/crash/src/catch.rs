//! A firmware that stops on a broken invariant has been found out, not the lab.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}
static QUIET: Once = Once::new();

/// Calls `work`; what it panics with is returned and not printed. What `work` has changed is not to
/// be used after a panic.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    QUIET.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                before(info);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        format!("the firmware stops: {}", text.unwrap_or("without a reason"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_sentence() {
        assert_eq!(catch(|| 7), Ok(7));
        let stopped = catch(|| -> u32 { panic!("{} is lost", "L7") });
        assert_eq!(stopped, Err("the firmware stops: L7 is lost".into()));
    }
}
