//! Writes a catalogue in the USGS layout to standard output: the same rows for the same number, about 197 bytes each.
//!
//! `cargo run --release --example generate_catalogue -- ROWS [--newest-first]`
//!
//! Quiet times of some minutes between events, and now and then a sequence with seconds between them. Every place is
//! quoted and holds a comma; some hold doubled quotes, a few a line feed.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// 2015-01-01T00:00:00Z, in milliseconds since 1970.
const FIRST_MILLIS: i64 = 1_420_070_400_000;
/// 9000-01-01T00:00:00Z, where newest first starts.
const LAST_MILLIS: i64 = 221_845_392_000_000;
const HEADER: &str = "time,latitude,longitude,depth,mag,magType,nst,gap,dmin,rms,net,id,updated,place,type,horizontalError,depthError,magError,magNst,status,locationSource,magSource";
const PLACES: [&str; 6] = [
    "140 km ESE of Petropavlovsk-Kamchatsky, Russia",
    "70 km W of Firuzabad, Iran",
    "south of the Kermadec Islands, New Zealand region",
    "Kuril Islands, near the trench east of Severo-Kuril'sk",
    "128 km W of Ferndale, California",
    "12 km NNE of Villa de Zaachila, Mexico",
];

/// `SplitMix64`: the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let newest_first = arguments.get(1).is_some_and(|argument| argument == "--newest-first");
    let Some(Ok(rows)) = arguments.first().map(|rows| rows.parse::<u64>()) else {
        eprintln!("usage: generate_catalogue ROWS [--newest-first]");
        return ExitCode::from(2);
    };
    match write_rows(&mut BufWriter::new(io::stdout().lock()), rows, newest_first) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the catalogue: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write_rows(out: &mut impl Write, rows: u64, newest_first: bool) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    let mut numbers = Numbers(20_250_729);
    let (mut millis, sign) = if newest_first { (LAST_MILLIS, -1) } else { (FIRST_MILLIS, 1) };
    let mut in_sequence = 0_u64;
    for row in 0..rows {
        if in_sequence == 0 && numbers.below(4_000) == 0 {
            in_sequence = 50 + numbers.below(200);
        }
        let gap = if in_sequence > 0 { numbers.below(180_000) } else { numbers.below(2_400_000) };
        in_sequence = in_sequence.saturating_sub(1);
        millis += sign * gap.cast_signed();
        write_row(out, row, millis, &mut numbers)?;
    }
    out.flush()
}

fn write_row(out: &mut impl Write, row: u64, millis: i64, numbers: &mut Numbers) -> io::Result<()> {
    let time = stamp(millis);
    let updated = stamp(millis + 604_800_000);
    let signed = |number: u64, half: u64| number.cast_signed() - half.cast_signed();
    let (latitude, longitude) = (signed(numbers.below(1_800_000), 900_000), signed(numbers.below(3_600_000), 1_800_000));
    let (depth, magnitude) = (numbers.below(60_000), 250 + numbers.below(400));
    let nst = numbers.below(200);
    let place = PLACES[usize::try_from(numbers.below(PLACES.len() as u64)).unwrap_or(0)];
    let mark = match numbers.below(1_000) {
        0 => "\n",
        1..20 => " \"\"aftershock\"\"",
        _ => "",
    };
    writeln!(
        out,
        "{time},{}.{:04},{}.{:04},{}.{:02},{}.{:02},mb,{nst},{},{}.{:03},0.{:02},us,us{row:08x},{updated},\"{place}{mark}\",earthquake,{}.{},1.8,0.{:03},{},reviewed,us,us",
        latitude / 10_000,
        latitude.unsigned_abs() % 10_000,
        longitude / 10_000,
        longitude.unsigned_abs() % 10_000,
        depth / 100,
        depth % 100,
        magnitude / 100,
        magnitude % 100,
        numbers.below(360),
        numbers.below(20),
        numbers.below(1_000),
        numbers.below(100),
        numbers.below(20),
        numbers.below(10),
        numbers.below(500),
        numbers.below(100),
    )
}

/// RFC 3339 with milliseconds.
fn stamp(millis: i64) -> String {
    throttler::time::Timestamp::from_millis(millis).map(|at| at.to_string()).unwrap_or_default()
}
