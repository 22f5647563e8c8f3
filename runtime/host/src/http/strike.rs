//! Takes secrets out of what comes back: each is replaced by `[secret:NAME]`.
//!
//! All secrets of the operator are looked for in every answer, since a server may repeat what another request brought it. Covered
//! are a value as it is, as a JSON string has it, and percent-encoded. Not covered: a value that the server has transformed
//! (compressed, encoded in base64, hashed, cut), and header names.

use memchr::memmem;
use stepwell_core::contract::Response;
use stepwell_core::error::Error;
use url::form_urlencoded;

use super::secret::Secrets;

/// Knows what to look for.
pub(super) struct Striker(Vec<Needle>);

struct Needle {
    finder: memmem::Finder<'static>,
    mark: String,
}

impl Striker {
    pub(super) fn new(secrets: &Secrets) -> Self {
        let mut forms: Vec<(String, String)> = Vec::new();
        for (name, value) in secrets.values() {
            let percent: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            for form in [value.to_owned(), json_form(value), percent.replace('+', "%20"), percent] {
                if !forms.iter().any(|(known, _)| *known == form) {
                    forms.push((form, format!("[secret:{name}]")));
                }
            }
        }
        // Longest first: one secret may be the beginning of another.
        forms.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        Self(
            forms
                .into_iter()
                .map(|(form, mark)| Needle { finder: memmem::Finder::new(&form).into_owned(), mark })
                .collect(),
        )
    }

    /// An answer without secrets.
    pub(super) fn response(&self, mut response: Response) -> Response {
        for (_, value) in &mut response.headers {
            *value = self.text(std::mem::take(value));
        }
        response.body = self.bytes(response.body);
        response
    }

    /// An error without secrets. None should have got into it.
    pub(super) fn error(&self, mut error: Error) -> Error {
        error.message = self.text(error.message);
        error
    }

    fn text(&self, text: String) -> String {
        // Needles and marks are ASCII, so text stays text.
        String::from_utf8(self.bytes(text.into_bytes())).unwrap_or_default()
    }

    fn bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for needle in &self.0 {
            let Some(first) = needle.finder.find(&bytes) else { continue };
            let mut struck = bytes[..first].to_vec();
            let mut rest = &bytes[first..];
            while let Some(at) = needle.finder.find(rest) {
                struck.extend_from_slice(&rest[..at]);
                struck.extend_from_slice(needle.mark.as_bytes());
                rest = &rest[at + needle.finder.needle().len()..];
            }
            struck.extend_from_slice(rest);
            bytes = struck;
        }
        bytes
    }
}

/// A value as it stands within a JSON string. It has no control characters but, perhaps, tabs.
fn json_form(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t")
}
