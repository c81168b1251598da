//! Runs code that a file controls within a stack, a heap and a time.
//!
//! A chat template can nest, repeat and concatenate without end inside single instructions, where the interpreter's
//! step count does not reach: `[1] * 100000 * 100000`, `x ~ x` in a loop, an indent of 10^10. Recursion and memory
//! would then end the process. So a template runs on a thread of its own with a large stack, the allocator counts that
//! thread's memory, and past the limit, or the time, the thread is abandoned: it stops for good at its next
//! allocation, keeping what it holds. That costs memory once per hostile template and nothing otherwise.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::failure::Failure;

pub struct Limits {
    pub stack_bytes: usize,
    pub heap_bytes: usize,
    pub time: Duration,
}

/// Runs `body` and returns its result; a panic goes on in the calling thread.
pub fn run<T: Send + 'static>(
    limits: &Limits,
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = Arc::new(Shared { state: Mutex::new(State::Running), ..Shared::default() });
    let result = Arc::new(Mutex::new(None));
    let (theirs, slot, heap_bytes) = (shared.clone(), result.clone(), limits.heap_bytes);
    let thread = std::thread::Builder::new()
        .stack_size(limits.stack_bytes)
        .spawn(move || {
            CONFINED.set(Some(Confined { left: heap_bytes, shared: Arc::as_ptr(&theirs) }));
            let outcome: Outcome<T> = catch_unwind(AssertUnwindSafe(body));
            CONFINED.set(None);
            *lock(&slot) = Some(outcome);
            theirs.finish(State::Done);
        })
        .map_err(|error| Failure::exhausted(format!("a thread: {error}")))?;
    match shared.wait(limits.time) {
        State::Done => {
            // The thread has nothing left to do but end.
            let _ = thread.join();
            let outcome = lock(&result).take();
            match outcome {
                Some(Ok(value)) => value,
                Some(Err(panic)) => resume_unwind(panic),
                None => Err(Failure::internal("a confined thread left no result")),
            }
        }
        State::OutOfMemory => {
            Err(Failure::exhausted(format!("more than {} bytes of memory", limits.heap_bytes)))
        }
        State::Running => {
            shared.abandoned.store(true, Ordering::Relaxed);
            Err(Failure::exhausted(format!("more than {} seconds", limits.time.as_secs())))
        }
    }
}

type Outcome<T> = Result<Result<T, Failure>, Box<dyn Any + Send>>;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    Done,
    OutOfMemory,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    abandoned: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    fn finish(&self, state: State) {
        *lock(&self.state) = state;
        self.changed.notify_one();
    }

    fn wait(&self, time: Duration) -> State {
        let waiting = |state: &mut State| *state == State::Running;
        match self.changed.wait_timeout_while(lock(&self.state), time, waiting) {
            Ok((state, _)) => *state,
            Err(poisoned) => *poisoned.into_inner().0,
        }
    }
}

#[derive(Clone, Copy)]
struct Confined {
    left: usize,
    shared: *const Shared, // the thread's closure keeps it alive
}

thread_local! {
    // Constant and without a destructor, so the allocator may use it at any time.
    static CONFINED: Cell<Option<Confined>> = const { Cell::new(None) };
}

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

extern "C" {
    fn pause() -> i32;
}

fn charge(bytes: usize) {
    let Some(confined) = CONFINED.get() else { return };
    let shared = unsafe { &*confined.shared };
    if confined.left >= bytes && !shared.abandoned.load(Ordering::Relaxed) {
        CONFINED.set(Some(Confined { left: confined.left - bytes, ..confined }));
        return;
    }
    // An allocator must not unwind, and returning null would abort the process.
    CONFINED.set(None);
    shared.finish(State::OutOfMemory);
    loop {
        unsafe { pause() };
    }
}

fn refund(bytes: usize) {
    if let Some(confined) = CONFINED.get() {
        let left = confined.left.saturating_add(bytes);
        CONFINED.set(Some(Confined { left, ..confined }));
    }
}

// Every call goes on to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        refund(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        charge(size);
        refund(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}
