#include "libshard/remote/http/url.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/remote/http/libcurl.h"

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

// An address that libcurl takes apart and resolves, as curl_url(3) describes. Owns the handle.
class ParsedUrl {
 public:
  ParsedUrl() : handle_(Curl().url()) {}
  ParsedUrl(const ParsedUrl&) = delete;
  ParsedUrl& operator=(const ParsedUrl&) = delete;
  ~ParsedUrl() { Curl().url_cleanup(handle_); }

  CURLUcode Set(CURLUPart part, const std::string& text, unsigned flags = 0) {
    return Curl().url_set(handle_, part, text.c_str(), flags);
  }
  // "" for a part that is not there.
  std::string Get(CURLUPart part, unsigned flags = 0) const {
    char* found = nullptr;
    if (Curl().url_get(handle_, part, &found, flags) != CURLUE_OK) return "";
    std::string text = found;
    Curl().free(found);
    return text;
  }

 private:
  CURLU* handle_;
};

bool IsHost(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("-._[]:").find(c) != std::string_view::npos;
  });
}

// Makes `text` the address, or the place that it names when it is relative and there was one.
Status SetAddress(std::string_view text, ParsedUrl& parsed) {
  if (!IsClean(text)) return NoAddress("characters", "blanks and others percent-encoded (%20)");
  const CURLUcode code = parsed.Set(CURLUPART_URL, std::string(text));
  const std::string scheme = parsed.Get(CURLUPART_SCHEME);
  if (code == CURLUE_BAD_SCHEME || code == CURLUE_UNSUPPORTED_SCHEME ||
      (code == CURLUE_OK && scheme != "https" && scheme != "http"))
    return NoAddress("scheme", "https:// (or http:// on this machine)");
  if (code == CURLUE_BAD_PORT_NUMBER) return NoAddress("port", "1 to 65535");
  if (code != CURLUE_OK) return NoAddress("host", "a name or a number");
  return Ok();
}

Result<Url> ReadParts(const ParsedUrl& parsed) {
  Url url;
  url.scheme = parsed.Get(CURLUPART_SCHEME);
  url.host = Lower(parsed.Get(CURLUPART_HOST));
  if (!IsHost(url.host)) return NoAddress("host", "a name or a number");
  url.port =
      static_cast<uint16_t>(ParseUint(parsed.Get(CURLUPART_PORT, CURLU_DEFAULT_PORT)).value_or(0));
  if (url.port == 0) return NoAddress("port", "1 to 65535");
  url.path = parsed.Get(CURLUPART_PATH);
  url.query = parsed.Get(CURLUPART_QUERY);
  url.user = parsed.Get(CURLUPART_USER, CURLU_URLDECODE);
  url.password = parsed.Get(CURLUPART_PASSWORD, CURLU_URLDECODE);
  return url;
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
  SHARD_CHECK(OpenLibCurl());
  ParsedUrl parsed;
  SHARD_CHECK(SetAddress(text, parsed));
  return ReadParts(parsed);
}

Result<Url> ResolveLocation(const Url& base, std::string_view location) {
  SHARD_CHECK(OpenLibCurl());
  ParsedUrl parsed;
  SHARD_CHECK(SetAddress(base.Text(), parsed));
  if (!base.user.empty()) parsed.Set(CURLUPART_USER, base.user, CURLU_URLENCODE);
  if (!base.password.empty()) parsed.Set(CURLUPART_PASSWORD, base.password, CURLU_URLENCODE);
  SHARD_CHECK(SetAddress(location, parsed));
  return ReadParts(parsed);
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
