"""The evaluation and deployment of the paper at full scale: one module per figure, each with claims."""
