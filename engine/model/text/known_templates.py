"""Chat templates of families, for models whose own does not compile.

Each is only the format in which the family's turns are written: no tools, no thinking.
"""

from __future__ import annotations

_CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""
_LLAMA3 = """\
{{- bos_token or '' -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' -}}
{{- message['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{%- endif -%}"""
_GEMMA = """\
{{- bos_token or '' -}}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}{{ raise_exception('no system text') }}{%- endif -%}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"""
_PHI3 = """\
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}"""
_MISTRAL = """\
{{- bos_token or '' -}}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}{{ raise_exception('no place for a system text') }}
{%- elif message['role'] == 'user' -%}{{- '[INST] ' + message['content'] + ' [/INST]' -}}
{%- else -%}{{- ' ' + message['content'] + (eos_token or '') -}}{%- endif -%}
{%- endfor -%}"""

_BY_MARK = (
    ("<|im_start|>", _CHATML),
    ("<|start_header_id|>", _LLAMA3),
    ("<start_of_turn>", _GEMMA),
    ("[INST]", _MISTRAL),
    ("<|assistant|>", _PHI3),
)


def template_like(source: str) -> str | None:
    """Return the template of the family whose marks are in a template's text."""
    return next((template for mark, template in _BY_MARK if mark in source), None)
