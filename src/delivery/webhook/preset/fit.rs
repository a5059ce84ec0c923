//! Lines of text within what a channel takes: whole lines only, and what is left out is counted.

/// Room kept for the line that tells how much is left out, in characters or bytes.
const NOTE_ROOM: usize = 64;

/// How long a text is where a channel counts characters: in UTF-16 units, of which there are never fewer than characters.
pub(super) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The lines joined to blocks, at most `most` of them, each at most `size` long as `measure` has it. If not all fit, the
/// last block ends with how many do not.
pub(super) fn blocks(lines: &[String], most: usize, size: usize, measure: fn(&str) -> usize) -> Vec<String> {
    let room = size.saturating_sub(NOTE_ROOM);
    let mut blocks: Vec<String> = Vec::new();
    let mut left_out = 0_usize;
    for line in lines {
        let length = measure(line);
        // Once a line is left out so is the rest: nobody should miss one in the middle.
        if left_out > 0 || length > room {
            left_out += 1;
            continue;
        }
        if let Some(block) = blocks.last_mut().filter(|block| measure(block) + 1 + length <= room) {
            block.push('\n');
            block.push_str(line);
        } else if blocks.len() < most {
            blocks.push(line.clone());
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        let note = format!("… and {left_out} more lines that do not fit here");
        match blocks.last_mut() {
            Some(block) => *block = format!("{block}\n{note}"),
            None => blocks.push(note),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_whole_and_what_is_left_out_is_counted() {
        let lines: Vec<String> = (0..50).map(|n| format!("{n:02} {}", "x".repeat(27))).collect();
        let all = blocks(&lines, 3, 1_000, str::len);
        assert_eq!(all.iter().flat_map(|block| block.lines()).count(), 50);
        assert!(all.iter().all(|block| block.len() <= 1_000));
        let some = blocks(&lines, 2, 300, str::len);
        assert_eq!(some.len(), 2);
        assert!(some.iter().all(|block| block.len() <= 300), "{some:?}");
        let shown = some.iter().flat_map(|block| block.lines()).filter(|line| line.contains("xx")).count();
        assert!(some[1].ends_with(&format!("… and {} more lines that do not fit here", 50 - shown)), "{some:?}");
    }

    #[test]
    fn a_line_that_never_fits_is_counted_and_not_cut() {
        let lines = ["short".to_owned(), "😀".repeat(60), "after".to_owned()];
        assert_eq!(blocks(&lines, 5, 150, units), ["short\n… and 2 more lines that do not fit here"]);
        assert_eq!(blocks(&lines[1..2], 5, 150, units), ["… and 1 more lines that do not fit here"]);
        assert!(blocks(&[], 5, 150, units).is_empty());
    }
}
