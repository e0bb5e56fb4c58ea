#include "libshard/remote/http/url.h"

#include <algorithm>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr std::string_view kUnreserved =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

std::string Encode(std::string_view text, std::string_view allowed) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kUnreserved.find(c) != kUnreserved.npos || allowed.find(c) != allowed.npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

uint16_t DefaultPort(std::string_view scheme) { return scheme == "http" ? 80 : 443; }

// Characters that an address may contain: no blanks, no controls, nothing unescaped beyond ASCII.
bool IsClean(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

Error NoAddress(const char* thing, const char* expected) {
  return {Code::kInvalidArgument, Cat("address: ", thing, ": expected ", expected),
          "write it as https://host/path/"};
}

// "user:password@host:port".
Status ReadAuthority(std::string_view text, Url& url) {
  if (const size_t at = text.rfind('@'); at != text.npos) {
    const std::string_view user = text.substr(0, at);
    const size_t colon = user.find(':');
    url.user = DecodePercent(user.substr(0, colon));
    if (colon != user.npos) url.password = DecodePercent(user.substr(colon + 1));
    text.remove_prefix(at + 1);
  }
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == text.npos) return NoAddress("host", "a ']' behind it");
  const size_t colon = text.find(':', bracket);
  url.host = Lower(text.substr(0, colon));
  url.port = DefaultPort(url.scheme);
  if (colon != text.npos && colon + 1 < text.size()) {
    const auto port = ParseUint(text.substr(colon + 1));
    if (!port || *port == 0 || *port > UINT16_MAX) return NoAddress("port", "1 to 65535");
    url.port = static_cast<uint16_t>(*port);
  }
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("-._[]:").find(c) != std::string_view::npos;
  };
  if (url.host.empty() || !std::all_of(url.host.begin(), url.host.end(), allowed))
    return NoAddress("host", "a name or a number");
  return Ok();
}

// "a/./b/../c" -> "a/c", as in RFC 3986, 5.2.4; never above the root.
std::string RemoveDots(std::string_view path) {
  std::vector<std::string> kept;
  const std::vector<std::string> parts = Split(path.substr(1), '/');
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    if (parts[i] != "." && parts[i] != "..") {
      kept.push_back(parts[i]);
      continue;
    }
    if (parts[i] == ".." && !kept.empty()) kept.pop_back();
    if (last) kept.emplace_back();
  }
  return Cat("/", Join(kept, "/"));
}

void SetPathAndQuery(std::string_view text, Url& url) {
  text = text.substr(0, text.find('#'));
  const size_t mark = text.find('?');
  url.path = RemoveDots(text.starts_with('/') ? text.substr(0, mark) : std::string_view("/"));
  url.query = mark == text.npos ? "" : std::string(text.substr(mark + 1));
}

}  // namespace

std::string Url::Origin() const {
  return Cat(scheme, "://", host, port == DefaultPort(scheme) ? std::string() : Cat(":", port));
}

std::string Url::Text() const {
  return Cat(Origin(), path, query.empty() ? std::string() : Cat("?", query));
}

std::string Url::Shown() const { return Cat(Origin(), path); }

bool Url::IsLoopback() const {
  if (host == "localhost" || host == "[::1]") return true;
  const std::vector<std::string> parts = Split(host, '.');
  return parts.size() == 4 && parts[0] == "127" &&
         std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
           const auto number = ParseUint(part);
           return number && *number < 256;
         });
}

Result<Url> ParseUrl(std::string_view text) {
  const size_t end = text.find("://");
  Url url;
  url.scheme = end == text.npos ? "" : Lower(text.substr(0, end));
  if (url.scheme != "https" && url.scheme != "http")
    return NoAddress("scheme", "https:// (or http:// on this machine)");
  if (!IsClean(text)) return NoAddress("characters", "blanks and others percent-encoded (%20)");
  const std::string_view rest = text.substr(end + 3);
  const size_t path = std::min(rest.find_first_of("/?#"), rest.size());
  SHARD_CHECK(ReadAuthority(rest.substr(0, path), url));
  const std::string_view tail = rest.substr(path);
  SetPathAndQuery(tail.starts_with('/') ? std::string(tail) : Cat("/", tail), url);
  return url;
}

Result<Url> ResolveLocation(const Url& base, std::string_view location) {
  const size_t colon = location.find(':');
  const bool absolute = colon != location.npos && colon < location.find_first_of("/?#");
  if (absolute) return ParseUrl(location);
  if (location.starts_with("//")) return ParseUrl(Cat(base.scheme, ":", location));
  if (!IsClean(location)) return NoAddress("characters", "blanks and others percent-encoded (%20)");
  Url url = base;
  if (location.starts_with('/')) {
    SetPathAndQuery(location, url);
  } else if (location.starts_with('?')) {
    SetPathAndQuery(Cat(base.path, location), url);
  } else {
    SetPathAndQuery(Cat(base.path.substr(0, base.path.rfind('/') + 1), location), url);
  }
  return url;
}

std::optional<std::string> NextPage(std::string_view link) {
  // Addresses may contain commas, but no angle brackets.
  for (size_t open = link.find('<'); open != link.npos;) {
    const size_t close = link.find('>', open);
    if (close == link.npos) break;
    const size_t next = link.find('<', close);
    const std::string_view parameters = link.substr(close + 1, next - close - 1);
    if (parameters.find("rel=\"next\"") != parameters.npos)
      return std::string(link.substr(open + 1, close - open - 1));
    open = next;
  }
  return std::nullopt;
}

std::string EncodePath(std::string_view path) { return Encode(path, "/"); }
std::string EncodeComponent(std::string_view text) { return Encode(text, ""); }

std::string DecodePercent(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const auto high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high && low) {
        out += static_cast<char>(*high << 4 | *low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

Url Below(const Url& url, std::string_view file) {
  Url out = url;
  out.query.clear();
  if (!out.path.ends_with('/')) out.path += '/';
  out.path += EncodePath(file);
  return out;
}

}  // namespace moepack::remote
