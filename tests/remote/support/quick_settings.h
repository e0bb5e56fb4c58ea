// Settings with short timeouts and no patience: every request has its five tries.
#pragma once

#include "libshard/remote/http/http_client.h"

namespace moepack::remote {

inline HttpSettings QuickSettings() {
  HttpSettings settings;
  settings.retry.first = settings.retry.most = Seconds(0.001);
  settings.retry.patience = Seconds(0);
  settings.stall_seconds = 20;
  settings.connect_seconds = 5;
  return settings;
}

inline HttpClientPtr QuickClient(HttpSettings settings = QuickSettings()) {
  return std::make_shared<HttpClient>(std::move(settings));
}

}  // namespace moepack::remote
