#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

// What jinja2's urlize takes for an address, recognised in one pass each.

bool digit(char c) { return c >= '0' && c <= '9'; }

// Bytes of the leading run of \w and of `also`.
size_t word_run(std::string_view text, std::string_view also) {
  size_t at = 0;
  while (at < text.size()) {
    const Decoded now = decode_utf8(text.substr(at));
    const bool good =
        now.code == '_' || (properties(now.code) & kAlphanumeric) != 0 || also.find(text[at]) != also.npos;
    if (!good) break;
    at += now.size;
  }
  return at;
}

bool all_words(std::string_view text, std::string_view also) { return word_run(text, also) == text.size(); }

// (:port)? and (/path, ?query or #fragment)?, then the end.
bool port_and_path(std::string_view rest) {
  if (rest.starts_with(':')) {
    size_t digits = 1;
    while (digits < rest.size() && digit(rest[digits])) ++digits;
    if (digits == 1 || digits > 6) return false;
    rest.remove_prefix(digits);
  }
  return rest.empty() || rest[0] == '/' || rest[0] == '?' || rest[0] == '#';
}

bool top_level(std::string_view label) {
  const std::string low = lower(label);
  if (low.starts_with("xn--") && all_words(label.substr(4), "%")) {
    const size_t rest = count_codes(label.substr(4));
    if (rest >= 2 && rest <= 59) return true;
  }
  return low.size() >= 2 && low.size() <= 63 &&
         std::all_of(low.begin(), low.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

bool ip_host(std::string_view text) {
  std::string_view rest = text;
  for (int part = 0; part < 4; ++part) {
    size_t digits = 0;
    while (digits < rest.size() && digit(rest[digits])) ++digits;
    if (digits == 0 || digits > 3) break;
    rest.remove_prefix(digits);
    if (part == 3) return port_and_path(rest);
    if (!rest.starts_with('.')) break;
    rest.remove_prefix(1);
  }
  const size_t close = text.find(']');
  if (!text.starts_with('[') || close == text.npos) return false;
  const std::string_view groups = text.substr(1, close - 1);
  const auto colons = std::count(groups.begin(), groups.end(), ':');
  size_t run = 0;
  for (const char c : groups) {
    run = c == ':' ? 0 : run + 1;
    const bool hex = digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    if ((c != ':' && !hex) || run > 4) return false;
  }
  return colons >= 2 && colons <= 8 && port_and_path(text.substr(close + 1));
}

bool is_url(std::string_view text) {
  const std::string low = lower(text.substr(0, std::min<size_t>(text.size(), 8)));
  const size_t scheme = low.starts_with("https://") ? 8 : low.starts_with("http://") ? 7 : 0;
  const size_t prefix = scheme != 0 ? scheme : low.starts_with("www.") ? 4 : 0;
  if (scheme != 0 && ip_host(text.substr(scheme))) return true;
  const std::string_view rest = text.substr(prefix);
  const std::string_view host = rest.substr(0, word_run(rest, "%-."));
  if (!port_and_path(rest.substr(host.size()))) return false;
  const size_t dot = host.rfind('.');
  const std::string_view last = dot == host.npos ? host : host.substr(dot + 1);
  size_t shortest = SIZE_MAX, longest = 0;
  for (size_t at = 0; dot != host.npos && at <= dot;) {
    const size_t end = host.find('.', at);
    const size_t size = count_codes(host.substr(at, end - at));
    shortest = std::min(shortest, size);
    longest = std::max(longest, size);
    at = end + 1;
  }
  if (prefix != 0 && shortest >= 1 && top_level(last)) return true;
  if (dot == host.npos || shortest < 2 || longest > 63) return false;
  constexpr std::string_view kKnown[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
  return std::find(std::begin(kKnown), std::end(kKnown), lower(last)) != std::end(kKnown);
}

bool is_email(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == text.npos || at == 0) return false;
  const std::string_view host = text.substr(at + 1);
  const size_t dot = host.rfind('.');
  return !host.empty() && word_run(host, "") > 0 && dot != host.npos && dot + 1 < host.size() &&
         all_words(host, ".-") && all_words(host.substr(dot + 1), "");
}

size_t tail_of(std::string_view text) {
  size_t end = text.size();
  for (;;) {
    const std::string_view rest = text.substr(0, end);
    if (rest.ends_with("&gt;")) {
      end -= 4;
    } else if (!rest.empty() && std::string_view(")>.,\n").find(rest.back()) != std::string_view::npos) {
      --end;
    } else {
      return end;
    }
  }
}

std::string linked(std::string_view middle, int64_t limit, const std::string& attributes,
                   const std::vector<std::string>& schemes) {
  if (is_url(middle)) {
    std::string shown(middle);
    if (limit >= 0 && static_cast<int64_t>(count_codes(middle)) > limit) {
      shown = std::string(middle.substr(0, code_offset(middle, static_cast<size_t>(limit)))) + "...";
    }
    const bool complete = middle.starts_with("https://") || middle.starts_with("http://");
    return fmt::format("<a href=\"{}{}\"{}>{}</a>", complete ? "" : "https://", middle, attributes, shown);
  }
  if (middle.starts_with("mailto:") && is_email(middle.substr(7)))
    return fmt::format("<a href=\"{}\">{}</a>", middle, middle.substr(7));
  const bool address =
      middle.find('@') != middle.npos && !middle.starts_with("www.") && middle.find(':') == middle.npos;
  if (address && is_email(middle)) return fmt::format("<a href=\"mailto:{0}\">{0}</a>", middle);
  if (address) return std::string(middle);
  for (const std::string& scheme : schemes) {
    if (middle != scheme && middle.starts_with(scheme))
      return fmt::format("<a href=\"{0}\"{1}>{0}</a>", middle, attributes);
  }
  return std::string(middle);
}

}  // namespace

std::string link_urls(Runtime& runtime, std::string_view text, int64_t limit, std::string_view rel,
                      std::string_view target, const std::vector<std::string>& schemes) {
  std::string attributes = rel.empty() ? "" : fmt::format(" rel=\"{}\"", rel);
  if (!target.empty()) attributes += fmt::format(" target=\"{}\"", target);
  std::string out;
  while (!text.empty()) {
    const size_t space = text.size() - strip(text, {}, true, false).size();
    runtime.append(out, text.substr(0, space));
    text.remove_prefix(space);
    size_t end = 0;
    while (end < text.size() && !is_space(decode_utf8(text.substr(end)).code))
      end += decode_utf8(text.substr(end)).size;
    std::string_view middle = text.substr(0, end);
    text.remove_prefix(end);
    size_t head = 0;
    for (;;) {
      if (middle.substr(head).starts_with("&lt;")) {
        head += 4;
      } else if (head < middle.size() && (middle[head] == '(' || middle[head] == '<')) {
        ++head;
      } else {
        break;
      }
    }
    runtime.append(out, middle.substr(0, head));
    middle.remove_prefix(head);
    size_t body = tail_of(middle);
    // Closing brackets that balance opening ones belong to the address.
    constexpr std::pair<std::string_view, std::string_view> kPairs[] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    for (const auto& [open, close] : kPairs) {
      int64_t missing = count(middle.substr(0, body), open);
      if (missing <= count(middle.substr(0, body), close)) continue;
      for (; missing > 0; --missing) {
        const size_t at = middle.find(close, body);
        if (at == middle.npos) break;
        body = at + close.size();
      }
    }
    runtime.append(out, linked(middle.substr(0, body), limit, attributes, schemes));
    runtime.append(out, middle.substr(body));
  }
  return out;
}

}  // namespace cortiq::text::jinja
