#pragma once
#include "text/jinja/ast.h"

namespace cortiq::text::jinja {

/// Calls `visit` with every direct operand of an expression, arguments included.
template <class Node, class Visit>
void for_each_child(Node& node, Visit visit) {
  for (auto& item : node.items) {
    if (item) visit(*item);
  }
  if (!node.arguments) return;
  for (auto& argument : node.arguments->positional) visit(*argument);
  for (auto& [name, argument] : node.arguments->keywords) visit(*argument);
  if (node.arguments->star) visit(*node.arguments->star);
  if (node.arguments->double_star) visit(*node.arguments->double_star);
}

}  // namespace cortiq::text::jinja
