"""Reports for people: a terminal summary and one self-contained page. The only room that plots."""
