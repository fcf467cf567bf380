#pragma once
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace cortiq::text::jinja {

/// Gives every name of a template its place before anything runs, by jinja2's static rules: which scope a name belongs
/// to depends on where it is stored, not on what has run (a loop body that assigns x has its own x, which begins as the
/// outer one in every round; a macro sees the variables of the place where it stands).
/// Throws Parse for what only this analysis can see (break outside a loop, an assignment to `loop`).
void resolve_scopes(Ast& ast, const Lexer& lexer);

}  // namespace cortiq::text::jinja
