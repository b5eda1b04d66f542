"""Who names what in runs of scripts whose library hides its messages: the slow phase of a rank, the slow link."""
