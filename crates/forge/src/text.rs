//! Texts in lines of words and numbers: configuration layers, crash scripts, traces as text.

use crate::Choices;
use std::ops::Range;

/// Changes a text a few times: lines are removed, doubled and exchanged, numbers and words replaced
/// by others, and seldom a letter, so that most of what comes out still has the form of a text of
/// its kind.
pub fn change_text(text: &str, choices: &mut Choices<'_>) -> String {
    let mut text = text.to_owned();
    while !choices.is_over() {
        match choices.byte() % 8 {
            0 => change_lines(&mut text, choices),
            1 => change_letter(&mut text, choices),
            2 | 3 => change_word(&mut text, choices),
            _ => change_number(&mut text, choices),
        }
    }
    text
}

fn change_lines(text: &mut String, choices: &mut Choices<'_>) {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return;
    }
    let (one, other) = (choices.below(lines.len()), choices.below(lines.len()));
    match choices.byte() % 3 {
        0 => drop(lines.remove(one)),
        1 => lines.insert(one, lines[other]),
        _ => lines.swap(one, other),
    }
    *text = lines.join("\n");
}

fn change_letter(text: &mut String, choices: &mut Choices<'_>) {
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    let at = if places.is_empty() {
        0
    } else {
        *choices.of(&places)
    };
    text.insert(
        at,
        *choices.of(&['"', '=', '[', '-', '.', '\0', 'x', '9', 'é', '\n', '#', ' ']),
    );
}

fn change_word(text: &mut String, choices: &mut Choices<'_>) {
    let words = parts(text, |letter| letter.is_alphabetic() || letter == '_');
    if !words.is_empty() {
        let with = text[choices.of(&words).clone()].to_owned();
        text.replace_range(choices.of(&words).clone(), &with);
    }
}

fn change_number(text: &mut String, choices: &mut Choices<'_>) {
    let numbers = parts(text, |letter| letter.is_ascii_digit());
    if !numbers.is_empty() {
        let range = choices.of(&numbers).clone();
        let value = text[range.clone()].parse().unwrap_or(u64::MAX);
        text.replace_range(range, &choices.instead_of(value).to_string());
    }
}

/// Where the letters of a kind stand together.
fn parts(text: &str, is_in: impl Fn(char) -> bool) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for (at, letter) in text.char_indices().filter(|(_, letter)| is_in(*letter)) {
        let end = at + letter.len_utf8();
        match all.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => all.push(at..end),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_choices_a_text_stays() {
        assert_eq!(change_text("a = 1\n", &mut Choices::new(&[])), "a = 1\n");
    }

    #[test]
    fn a_number_is_replaced_by_another() {
        // Change a number; the first; one more.
        let changed = change_text("a = 41 b", &mut Choices::new(&[7, 0, 0, 0]));
        assert_eq!(changed, "a = 42 b");
    }
}
