//! The board: interrupts, the executor's loop, the command line.

mod clock;
#[cfg(not(feature = "uart"))]
mod ethernet;
#[cfg(feature = "uart")]
mod uart;

pub use clock::cycles;
#[cfg(not(feature = "uart"))]
pub use ethernet::Ethernet;
#[cfg(feature = "uart")]
pub use uart::{Receiver, Sender, start as start_uart};

use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use cortex_m_rt::{entry, exception};
use embassy_executor::raw::Executor;
use static_cell::StaticCell;

/// Whether a task can make progress.
static PENDING: AtomicBool = AtomicBool::new(true);

#[unsafe(export_name = "__pender")]
fn pender(_: *mut ()) {
    PENDING.store(true, Ordering::Release);
}

#[entry]
fn begin() -> ! {
    static EXECUTOR: StaticCell<Executor> = StaticCell::new();
    paint_stack();
    clock::start();
    let executor: &'static Executor = EXECUTOR.init_with(|| Executor::new(ptr::null_mut()));
    let spawner = executor.spawner();
    spawner.spawn(crate::main(spawner).unwrap());
    loop {
        // SAFETY: it is called only from here, and never from within a task.
        unsafe { executor.poll() };
        // With interrupts off, an interrupt still ends the wait. QEMU does not implement waiting for an event (WFE).
        cortex_m::interrupt::disable();
        if !PENDING.swap(false, Ordering::AcqRel) {
            cortex_m::asm::wfi();
        }
        // SAFETY: no critical section is open here.
        unsafe { cortex_m::interrupt::enable() };
    }
}

#[exception]
unsafe fn DefaultHandler(number: i16) {
    match number {
        clock::INTERRUPT => clock::handle(),
        #[cfg(not(feature = "uart"))]
        ethernet::INTERRUPT => ethernet::handle(),
        #[cfg(feature = "uart")]
        uart::INTERRUPT => uart::handle(),
        _ => panic!("interrupt {number}"),
    }
}

/// Enables an interrupt.
fn enable(number: i16) {
    let (word, bit) = (number as usize / 32, number % 32);
    write(0xe000_e100 + 4 * word, 1 << bit);
}

fn read(register: usize) -> u32 {
    // SAFETY: callers pass the addresses of registers of this board. Reading them does not affect memory.
    unsafe { ptr::read_volatile(register as *const u32) }
}

fn write(register: usize, value: u32) {
    // SAFETY: callers pass the addresses of registers of this board. Writing them does not affect memory.
    unsafe { ptr::write_volatile(register as *mut u32, value) };
}

/// Returns the last word of the emulator's command line.
#[cfg(not(feature = "uart"))]
pub fn port_from_command_line() -> u16 {
    let mut buffer = [0_u8; 128];
    let mut block = [buffer.as_mut_ptr() as usize, buffer.len()];
    // SAFETY: the block has the address and the length of a buffer that outlives the call.
    let failed =
        unsafe { cortex_m_semihosting::syscall(cortex_m_semihosting::nr::GET_CMDLINE, &mut block) };
    let text = buffer.get(..block[1]).unwrap_or_default();
    let text = core::str::from_utf8(text).unwrap_or_default();
    let port = text
        .trim_end_matches('\0')
        .rsplit(' ')
        .next()
        .and_then(|port| port.parse().ok());
    port.filter(|_| failed == 0)
        .expect("the command line ends with the port of the server")
}

unsafe extern "C" {
    /// The end of the statics and the start of the stack, set by the linker.
    static mut __sheap: u32;
    static mut _stack_start: u32;
}

const PAINT: u32 = 0xdead_beef;

/// Fills the unused part of the stack, so that its largest extent can be measured later.
fn paint_stack() {
    let mut at = &raw mut __sheap;
    let here = &raw const at as usize - 256;
    while (at as usize) < here {
        // SAFETY: it is above all statics, and well below the frame of this function.
        unsafe {
            at.write_volatile(PAINT);
            at = at.add(1);
        }
    }
}

/// Returns how many bytes of the stack were never written to.
pub fn untouched_stack() -> usize {
    let bottom = &raw const __sheap;
    let mut at = bottom;
    // SAFETY: it ends at the first word that was written to, which is below the current frame.
    unsafe {
        while at.read_volatile() == PAINT {
            at = at.add(1);
        }
    }
    at as usize - bottom as usize
}

/// Returns the largest possible size of the stack.
pub fn stack_size() -> usize {
    &raw const _stack_start as usize - &raw const __sheap as usize
}
