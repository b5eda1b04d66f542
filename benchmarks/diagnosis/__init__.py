"""A campaign with ground truth: does the diagnosis name what slows a run down, and nothing else?

::

    drawn     seed/number -> a System (hosts, links, strategy) and what is injected into it, which nobody is told
    worlds    System + injections -> Trace, in the virtual world          live: on this machine's namespaces
    truth     the same run without the injection: what it cost, and whether that is material
    judging   the Report's culprits beside the truth                      rules: whom others' rules name in these traces
    bars      what is asked for, and whether it is met
"""
