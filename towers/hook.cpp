// SPDX-License-Identifier: MIT
#include "belfry/towers/hook.h"

#include "belfry/core/document.h"

namespace belfry {

std::shared_ptr<Hook> make_hook(const Registry& registry, const std::string& name,
                                const std::string& keys) {
  std::shared_ptr<Hook> hook = registry.table<HookEntry>().at(name, "hook").make();
  const std::string table = hook->table();
  Document document =
      Document::from_text("[" + table + "]\n" + keys, "keys of hook '" + name + "'");
  Schema schema;
  hook->declare(schema);
  document.bind(table, schema);
  document.finish();
  return hook;
}

}  // namespace belfry
